//! What a buyer says about a transfer.
//!
//! A reference counts once with its provider, over all raffles, and a person or a phone has one transfer in
//! review at a time: otherwise made-up references would keep numbers from others for nothing. Which is which
//! lies in a collection of its own, since raffles cannot be written together. So it is reserved there first, for
//! this attempt, and then the attempt is written; whoever finds it reserved for an attempt that is not in
//! review takes it over, after touching that attempt, so that it cannot be in review a moment later.

use sha2::{Digest, Sha256};
use tenure_core::{Expect, ItemId, Verb, hex};

use super::attempt::AttemptId;
use super::confirm::under;
use super::model::{AttemptDoc, NOT_REVIEWED, NewTransfer, Payment, State, TransferDoc};
use super::start::wrong_state;
use super::transfer::phone;
use super::{MINOR_MAX, Mode, Payments};
use crate::desk::status;
use crate::text::title;
use crate::{Actor, Document, Done, Family, Permission, Refusal, Result, Time, put};

/// References of transfers, by provider.
const REFERENCES: Family = Family("reference-");
/// Who has a transfer in review.
const PAYERS: Family = Family("payer-");
/// Phones that have one.
const PHONES: Family = Family("phone-");
/// The digits of a reference: banks have 20 to 30, some fewer.
const REFERENCE_CHARS: std::ops::RangeInclusive<usize> = 6..=60;
/// A payer's name, a bank's name.
const NAME_BYTES_MAX: usize = 100;
/// How often a reservation of a reference that belongs to nobody is taken over before giving in.
const TAKEOVERS_MAX: usize = 20;

impl Payments {
    /// The buyer has sent the money and says how.
    pub async fn submit(&self, actor: &Actor, id: &str, new: &NewTransfer) -> Result<Done<Payment>> {
        actor.require(Permission::RaffleBuy)?;
        let id = AttemptId::parse(id)?;
        let attempt = self.attempt(&id)?.data;
        if *attempt.buyer.id != *actor.principal.id {
            return Err(Refusal::NotOwner { what: "payment", id: id.to_string() });
        }
        if let Some(done) = self.repeated(actor, &id, actor.key.as_ref()).await? {
            return Ok(done);
        }
        let transfer = self.checked(&id, &attempt, new)?;
        // Before anything is reserved: what is over, or in review with another one, must lose nothing by this.
        let state = self.attempt(&id)?.state()?;
        if state != State::RequiresAction {
            let is_same = self.is_same(&id, &transfer)?;
            return if is_same { self.carried_out(actor, &id) } else { Err(not_open(&id, state)) };
        }
        let marks = marks(&attempt, &transfer)?;
        self.reserve(&id, &transfer, &marks).await?;
        let submitted = self
            .step_under(&id, actor.key.as_ref(), |attempt, state, order| {
                if state != State::RequiresAction {
                    return Err(not_open(&id, state));
                }
                let claim = order.held()?;
                for (mark, field) in &marks {
                    if self.marked(mark)?.is_none_or(|found| found.data.payment != transfer.payment) {
                        return Err(spoken_for(field));
                    }
                }
                let verbs = order.verify(None)?;
                let policy = self.desk.policy(crate::raffle::KIND)?.ok_or(Refusal::Broken)?;
                let kept_ms = policy.phase("verification").map_or(0, |(phase, _)| phase.ttl_ms);
                let moved = attempt.moved(State::PendingReview, order.now_ms, |data| {
                    data.until_ms = Some(order.now_ms + kept_ms);
                    data.transfer = Some(marks[0].0.to_string());
                    data.reason = None;
                })?;
                let mut verbs = verbs;
                // Before the phase changes: a claim that is over is refused as what it is.
                verbs.insert(0, under(claim, moved));
                Ok(Some(verbs))
            })
            .await;
        if let Err(refusal) = submitted {
            // Twice at once: the other one was taken.
            if self.is_same(&id, &transfer)? {
                return self.carried_out(actor, &id);
            }
            self.unreserve(&transfer, &marks).await;
            tracing::info!(payment = %id, code = refusal.code(), "a transfer is not taken: {refusal}");
            return Err(refusal);
        }
        self.carried_out(actor, &id)
    }

    fn checked(&self, id: &AttemptId, attempt: &AttemptDoc, new: &NewTransfer) -> Result<TransferDoc> {
        let provider = self.provider(&attempt.provider)?;
        if provider.connector.capabilities().mode != Mode::Manual {
            return Err(Refusal::invalid("provider", "is not paid by a transfer"));
        }
        let words = |field: &str, text: &Option<String>| {
            text.as_ref().map(|text| title(field, text, NAME_BYTES_MAX)).transpose()
        };
        if !(1..=MINOR_MAX).contains(&new.amount_minor) {
            return Err(Refusal::invalid("amount_minor", "must be at least 1, in minor units"));
        }
        let transferred_at = words("transferred_at", &new.transferred_at)?;
        if let Some(at) = &transferred_at
            && Time::parse(at).is_none()
        {
            let message = "must be a time such as 2026-01-02T03:04:05-06:00";
            return Err(Refusal::invalid("transferred_at", message));
        }
        Ok(TransferDoc {
            payment: id.to_string(),
            reference: reference(&new.reference)?,
            payer_phone: phone("payer_phone", &new.payer_phone)?,
            payer_name: words("payer_name", &new.payer_name)?,
            payer_bank: words("payer_bank", &new.payer_bank)?,
            amount_minor: new.amount_minor,
            transferred_at,
            submitted_ms: self.desk.now_ms(),
        })
    }

    /// The very same was submitted before. Another amount is not taken as told: a person compares it with the bank.
    fn is_same(&self, id: &AttemptId, transfer: &TransferDoc) -> Result<bool> {
        let attempt = self.attempt(id)?;
        let found = self.transfer_of(id, &attempt.data)?;
        let is_same = found.is_some_and(|found| {
            let submitted_ms = found.submitted_ms;
            found == TransferDoc { submitted_ms, ..transfer.clone() }
        });
        Ok(is_same && attempt.state()?.keeps_reference())
    }

    /// What the buyer said about this attempt's transfer, unless it was told for another one since.
    pub(super) fn transfer_of(&self, id: &AttemptId, attempt: &AttemptDoc) -> Result<Option<TransferDoc>> {
        let Some(mark) = &attempt.transfer else { return Ok(None) };
        let found = self.marked(&ItemId::new(mark.as_str())?)?.map(|found| found.data);
        Ok(found.filter(|found| found.payment == id.to_string()))
    }

    fn marked(&self, mark: &ItemId) -> Result<Option<Document<TransferDoc>>> {
        self.desk.find(&self.collection, mark)
    }

    /// Reserves reference, payer and phone for this attempt, all or none.
    async fn reserve(
        &self,
        id: &AttemptId,
        transfer: &TransferDoc,
        marks: &[(ItemId, &'static str)],
    ) -> Result<()> {
        let buyer = self.raffles.order(&self.attempt(id)?.data.reservation)?.holder()?;
        for _ in 0..TAKEOVERS_MAX {
            let (mut others, mut before) = (Vec::new(), Vec::new());
            for (mark, field) in marks {
                let Some(found) = self.marked(mark)? else { continue };
                if found.data.payment != transfer.payment {
                    others.push((AttemptId::parse(&found.data.payment)?, *field));
                    before.push((mark, found.data));
                }
            }
            for (other, field) in &others {
                self.touch(other, field, &buyer).await?;
            }
            let plan = || {
                let mut verbs = vec![Verb::CreateCollection];
                for (mark, field) in marks {
                    verbs.push(match self.marked(mark)? {
                        None => put(mark, &status("reserved"), transfer, Expect::Absent, None)?,
                        Some(found) => {
                            let owner = AttemptId::parse(&found.data.payment)?;
                            let is_own = found.data.payment == transfer.payment;
                            // One that came since the others were touched.
                            if !is_own && !others.iter().any(|(other, _)| *other == owner) {
                                return Err(spoken_for(field));
                            }
                            found.put(&status("reserved"), transfer, None)?
                        }
                    });
                }
                Ok(Verb::Group(verbs))
            };
            match self.desk.change_once(&buyer, &self.collection, "reserve", plan).await {
                Ok(_) => {
                    // One that was in review just before it was taken over gets back what is its own; one that
                    // comes after this is decided anew and finds it gone.
                    for (other, field) in &others {
                        if let Err(refusal) = self.touch(other, field, &buyer).await {
                            self.put_back(&buyer, transfer, &before).await?;
                            self.unreserve(transfer, marks).await;
                            return Err(refusal);
                        }
                    }
                    return Ok(());
                }
                Err(refusal) if refusal.code() == "conflict" => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Err(spoken_for("reference"))
    }

    /// Gives back to others what was taken from them for this transfer.
    async fn put_back(
        &self,
        buyer: &Actor,
        transfer: &TransferDoc,
        before: &[(&ItemId, TransferDoc)],
    ) -> Result<()> {
        for (mark, was) in before {
            let plan = || match self.marked(mark)? {
                Some(found) if found.data.payment == transfer.payment => {
                    found.put(&status("reserved"), was, None).map(Some)
                }
                _ => Ok(None),
            };
            self.desk.change_if(buyer, &self.collection, "put_back", plan).await?;
        }
        Ok(())
    }

    /// Refuses if that attempt has the mark for good; otherwise sees to it that it can only get it anew.
    async fn touch(&self, other: &AttemptId, field: &'static str, who: &Actor) -> Result<()> {
        self.step(other, |attempt, state, order| {
            let is_decided = state == State::Expired && attempt.data.decision.is_some();
            // What nobody compared in time may still be approved; whoever else knows its number did not send it.
            let is_unseen = state == State::Expired
                && attempt.data.reason.as_deref() == Some(NOT_REVIEWED)
                && *attempt.data.buyer.id != *who.principal.id;
            let keeps = match field {
                "reference" => state.keeps_reference() || is_decided || is_unseen,
                _ => is_in_review(state),
            };
            if keeps {
                return Err(spoken_for(field));
            }
            Ok(Some(vec![attempt.moved(state, order.now_ms, |data| {
                data.history.pop();
            })?]))
        })
        .await?;
        Ok(())
    }

    /// Gives back what was reserved for nothing. What a crash leaves is taken over by whoever needs it.
    async fn unreserve(&self, transfer: &TransferDoc, marks: &[(ItemId, &'static str)]) {
        let id = AttemptId::parse(&transfer.payment);
        let attempt = id.as_ref().map_err(|_| Refusal::Broken).and_then(|id| self.attempt(id));
        let buyer = attempt.and_then(|attempt| self.raffles.order(&attempt.data.reservation)?.holder());
        let (Ok(id), Ok(buyer)) = (id, buyer) else { return };
        for (mark, _) in marks {
            let plan = || {
                let Some(found) = self.marked(mark)? else { return Ok(None) };
                if found.data.payment != transfer.payment || self.is_needed(&id, mark)? {
                    return Ok(None);
                }
                let expect = Expect::Version(found.item.version);
                Ok(Some(Verb::DeleteItem { item: mark.clone(), expect, guard: None }))
            };
            if let Err(refusal) = self.desk.change_if(&buyer, &self.collection, "unreserve", plan).await {
                tracing::warn!("a reference that was not used stays reserved: {refusal}");
            }
        }
    }

    /// The mark is that of a transfer which was told for this attempt before, and which still counts.
    fn is_needed(&self, id: &AttemptId, mark: &ItemId) -> Result<bool> {
        let attempt = self.attempt(id)?;
        if !attempt.state()?.keeps_reference() {
            return Ok(false);
        }
        let Some(told) = self.transfer_of(id, &attempt.data)? else { return Ok(false) };
        Ok(marks(&attempt.data, &told)?.iter().any(|(needed, _)| needed == mark))
    }
}

fn is_in_review(state: State) -> bool {
    matches!(state, State::PendingReview | State::Conflicted)
}

fn not_open(id: &AttemptId, state: State) -> Refusal {
    wrong_state(id, state, "its transfer can be told only while it is open")
}

fn spoken_for(field: &str) -> Refusal {
    let message = match field {
        "reference" => "this transfer was told before",
        "payer_phone" => "a transfer from this phone is being compared; wait for it",
        _ => "another transfer of yours is being compared; wait for it",
    };
    Refusal::invalid(field, message)
}

/// The digits and letters of a reference, as banks mean it.
fn reference(text: &str) -> Result<String> {
    let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '-' | '.' | '/' | '\u{a0}')).collect();
    let is_good = plain.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_good && REFERENCE_CHARS.contains(&plain.len()) && text.len() <= *REFERENCE_CHARS.end() {
        return Ok(plain.to_ascii_uppercase());
    }
    Err(Refusal::invalid("reference", "has 6 to 60 digits or letters, spaces and dashes included"))
}

/// What is reserved for a transfer, and the field that says why it could not be.
fn marks(attempt: &AttemptDoc, transfer: &TransferDoc) -> Result<[(ItemId, &'static str); 3]> {
    Ok([
        (reference_mark(attempt, &transfer.reference)?, "reference"),
        (payer_mark(attempt)?, "payment"),
        (PHONES.id(&transfer.payer_phone)?, "payer_phone"),
    ])
}

fn reference_mark(attempt: &AttemptDoc, reference: &str) -> Result<ItemId> {
    // Everybody who follows the raffle sees which mark it is: it must not tell the reference.
    let digest = Sha256::digest(format!("{}/{reference}", attempt.provider).as_bytes());
    REFERENCES.id(&hex(&digest[..16]))
}

fn payer_mark(attempt: &AttemptDoc) -> Result<ItemId> {
    // A person's id may be as long as an item's.
    PAYERS.id(&hex(&Sha256::digest(attempt.buyer.id.as_bytes())[..16]))
}
