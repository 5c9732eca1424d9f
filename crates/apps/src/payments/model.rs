//! What is kept of a payment, what is asked and what is answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Instructions, Money};
use crate::{Person, Time};

/// A payer's name, a bank's name, a reason.
pub(super) const WORDS_BYTES_MAX: usize = 200;

/// Why a transfer that was told in time is over all the same.
pub(super) const NOT_REVIEWED: &str = "not_reviewed";

/// What has become of an attempt to pay. The word is the status of the attempt's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PaymentState)]
pub enum State {
    /// The provider is being asked.
    Created,
    /// The buyer is to pay.
    RequiresAction,
    /// The provider charges.
    Processing,
    /// A person compares it with the bank.
    PendingReview,
    /// Nobody knows whether it was charged; the provider is asked again.
    Unknown,
    /// Paid, and the numbers are sold.
    Succeeded,
    /// Not paid.
    Failed,
    /// Nobody paid in time.
    Expired,
    /// The buyer gave it up.
    Canceled,
    /// Paid, but not what was asked: a person decides.
    Conflicted,
    /// Paid, but the numbers are another's.
    PaidUnassigned,
    /// The money is to be given back.
    RefundPending,
    /// It was.
    Refunded,
    /// The provider would not; a person must.
    RefundFailed,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Created,
        Self::RequiresAction,
        Self::Processing,
        Self::PendingReview,
        Self::Unknown,
        Self::Succeeded,
        Self::Failed,
        Self::Expired,
        Self::Canceled,
        Self::Conflicted,
        Self::PaidUnassigned,
        Self::RefundPending,
        Self::Refunded,
        Self::RefundFailed,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::RequiresAction => "requires_action",
            Self::Processing => "processing",
            Self::PendingReview => "pending_review",
            Self::Unknown => "unknown",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::Conflicted => "conflicted",
            Self::PaidUnassigned => "paid_unassigned",
            Self::RefundPending => "refund_pending",
            Self::Refunded => "refunded",
            Self::RefundFailed => "refund_failed",
        }
    }

    /// The state of a word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Something may still come of it, so that no second attempt may begin.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Created
                | Self::RequiresAction
                | Self::Processing
                | Self::PendingReview
                | Self::Unknown
                | Self::Conflicted
        )
    }

    /// Nothing was charged, as far as anybody knows.
    pub(super) fn is_unpaid_end(self) -> bool {
        matches!(self, Self::Failed | Self::Expired | Self::Canceled)
    }

    /// A transfer's reference is spoken for: money came with it, or may have.
    pub(super) fn keeps_reference(self) -> bool {
        !matches!(self, Self::Created | Self::RequiresAction | Self::Failed | Self::Expired | Self::Canceled)
    }
}

/// An attempt's document, in its raffle's collection. Everybody who follows the raffle can read it: there is no
/// secret in it, and nothing of the buyer but what the reservation shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AttemptDoc {
    pub(super) reservation: String,
    pub(super) buyer: Person,
    pub(super) provider: String,
    pub(super) amount: Money,
    /// Its number with the provider.
    pub(super) number: String,
    /// The short code that a person types.
    pub(super) code: String,
    /// SHA-256 of the token in the page's and the callback's path.
    pub(super) token_hash: String,
    /// The vault's name for the token, the page and what confirms it.
    pub(super) vault: String,
    pub(super) started_ms: i64,
    /// Until when the buyer can act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<Instructions>,
    /// When the charge began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) charging_ms: Option<i64>,
    /// How often the provider was asked what became of it, or to give money back.
    #[serde(default)]
    pub(super) tries: u32,
    /// When to ask next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_ms: Option<i64>,
    /// The provider's own number for the charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) txn_id: Option<String>,
    /// What was really paid, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paid: Option<Money>,
    /// In a word, why it is what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Where what the buyer said about the transfer is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) transfer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<Decision>,
    /// Where it has been.
    pub(super) history: Vec<Was>,
}

/// One state that it was in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Was {
    pub(super) state: State,
    pub(super) at_ms: i64,
}

/// What a person decided. It is written in their own name, before anything comes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decision {
    pub(super) by: Person,
    pub(super) at_ms: i64,
    pub(super) verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The bank shows this much.
    Approve { bank_amount_minor: i64 },
    /// The bank shows nothing, or it is somebody else's.
    Reject { reason: String },
    /// Give it back.
    Refund,
    /// A person has sent it back, under this reference of the bank's.
    Sent { reference: String },
}

/// What was paid for a reservation, and until when there is time. Two attempts that begin at once write it
/// both, so that only one of them does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TabDoc {
    /// The newest attempt's item.
    pub(super) last: String,
    pub(super) attempts: u32,
    /// When checkout ends, payments or not. Paying may outlast it once; trying again may not.
    pub(super) deadline_ms: i64,
}

/// What a buyer says about a transfer: kept where no general route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TransferDoc {
    /// The attempt's id.
    pub(super) payment: String,
    pub(super) reference: String,
    pub(super) payer_phone: String,
    pub(super) payer_name: Option<String>,
    pub(super) payer_bank: Option<String>,
    pub(super) amount_minor: i64,
    pub(super) transferred_at: Option<String>,
    pub(super) submitted_ms: i64,
}

/// Pay for a reservation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reservation_id": "navidad~01jh2v7m9x4k2p", "provider": "bac_credomatic"}))]
pub struct NewPayment {
    /// The reservation.
    pub reservation_id: String,
    /// The provider's code.
    pub provider: String,
}

/// What a buyer says about a transfer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reference": "2026010212345678901234567", "payer_phone": "8888-0000", "amount_minor": 100_000}))]
pub struct NewTransfer {
    /// The bank's number for the transfer. Spaces and dashes do not matter.
    #[schema(min_length = 6, max_length = 60)]
    pub reference: String,
    /// The phone that it came from.
    #[schema(min_length = 8, max_length = 30)]
    pub payer_phone: String,
    /// Whose that is.
    #[schema(max_length = 100)]
    pub payer_name: Option<String>,
    /// Their bank.
    #[schema(max_length = 100)]
    pub payer_bank: Option<String>,
    /// How much was sent, in minor units.
    #[schema(minimum = 1)]
    pub amount_minor: i64,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub transferred_at: Option<String>,
}

/// An attempt to pay, as it is shown to its buyer and to the operator.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "navidad~01jh2v7m9x4k2q", "state": "requires_action", "reservation_id": "navidad~01kdzvq2me0x7f3",
    "provider": "bac_credomatic", "amount_minor": 300_000, "currency": "CRC",
    "payment_url": "/pay/navidad~01jh2v7m9x4k2q/6f1c0e9b", "expires_at": "2026-01-02T03:09:05.678Z",
    "expires_in_ms": 300_000, "reason": null, "started_at": "2026-01-02T03:04:05.678Z",
    "server_time": "2026-01-02T03:04:05.678Z",
}))]
pub struct Payment {
    /// Its id.
    #[schema(example = "navidad~01jh2v7m9x4k2q")]
    pub id: String,
    /// What has become of it.
    pub state: State,
    /// The reservation.
    #[schema(example = "navidad~01kdzvq2me0x7f3")]
    pub reservation_id: String,
    /// The provider's code.
    #[schema(example = "bac_credomatic")]
    pub provider: String,
    /// Whole minor units.
    #[schema(example = 100_000)]
    pub amount_minor: i64,
    /// ISO 4217.
    #[schema(example = "CRC")]
    pub currency: String,
    /// Where to pay: open it as a page of its own. Only for its buyer, and only while there is something to do.
    #[schema(example = "/pay/navidad~01jh2v7m9x4k2q/6f1c0e9b")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_url: Option<String>,
    /// How to pay by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
    /// Until when the buyer can act, or the reservation is kept.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub expires_at: Option<Time>,
    /// The time left. Count down from this, not from your own clock.
    #[schema(required = true, example = 287_000)]
    pub expires_in_ms: Option<i64>,
    /// In a word, why it is what it is: the gateway's code, `3ds_n`, `rejected` …
    #[schema(required = true)]
    pub reason: Option<String>,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// The buyer; only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buyer: Option<Person>,
    /// What was really paid, where that is known; only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid: Option<Money>,
    /// The provider's number for the charge; only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txn_id: Option<String>,
    /// What the buyer says about the transfer; only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferView>,
    /// Who decided last; only for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Person>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// A transfer, as the operator compares it with the bank.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PaymentTransfer)]
pub struct TransferView {
    /// The bank's number, without spaces and dashes.
    #[schema(example = "2026011512345678")]
    pub reference: String,
    /// The phone that it came from.
    #[schema(example = "88887777")]
    pub payer_phone: String,
    /// Whose that is.
    #[schema(required = true)]
    pub payer_name: Option<String>,
    /// Their bank.
    #[schema(required = true)]
    pub payer_bank: Option<String>,
    /// How much the buyer says was sent.
    #[schema(example = 300_000)]
    pub amount_minor: i64,
    /// When, as the buyer says.
    #[schema(required = true)]
    pub transferred_at: Option<String>,
    /// When the buyer said so.
    #[schema(value_type = String, format = DateTime)]
    pub submitted_at: Time,
}

/// Payments, oldest first in each raffle.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Payments)]
pub struct PaymentPage {
    /// The payments.
    pub payments: Vec<Payment>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Which payments.
#[derive(Clone, Debug, Default)]
pub struct PaymentQuery {
    /// Only in this state.
    pub state: Option<State>,
    /// Only after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}
