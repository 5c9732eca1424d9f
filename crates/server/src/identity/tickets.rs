//! Socket tickets: a browser cannot send a header with a socket, and a secret must not stand in a URL. So
//! it asks for a ticket that opens one socket, soon. Single use is decided by core: the ticket is a document
//! and redeeming is its deletion, which only one of many can do, on however many nodes.

use serde::{Deserialize, Serialize};
use tenure_core::{Expect, ItemId, Principal, Text};
use tenure_engine::ItemFilter;

use super::keys::no_randomness;
use super::secret::{Secret, Use};
use super::{Identity, documents, kinds_of};
use crate::idempotency::Key;
use crate::limits::{SWEEP_MAX, TICKET_MS_MAX};
use crate::problem::from_store;
use crate::{Caller, Credential, Problem, Role};

#[derive(Debug, Serialize, Deserialize)]
struct TicketDocument {
    subject: Principal,
    role: Role,
    kinds: Option<Vec<Text>>,
    proof: Proof,
    expires_at_ms: i64,
}

/// What its owner had proved itself with: a ticket is worth nothing after that is revoked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Proof {
    Key(Text),
    Session(Text),
    Jwt { expires_at_ms: i64 },
}

/// A ticket that was just made.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Its text. `Debug` hides it.
    pub secret: Secret,
    /// Until when it can be redeemed.
    pub expires_at_ms: i64,
}

impl Identity {
    /// A ticket that lets this caller open one socket.
    pub(crate) async fn issue_ticket(&self, caller: &Caller, retry: Option<&Key>) -> Result<Ticket, Problem> {
        let owner = &caller.principal;
        let secret = self.secret().make(Use::Ticket, &owner.id, retry).map_err(no_randomness)?;
        let document = TicketDocument {
            subject: owner.clone(),
            role: caller.role,
            kinds: caller.kinds.as_ref().map(|kinds| kinds.to_vec()),
            proof: match &caller.credential {
                Credential::Key(id) => Proof::Key(id.clone()),
                Credential::Session(id) => Proof::Session(id.clone()),
                Credential::Jwt { expires_at_ms } => Proof::Jwt { expires_at_ms: *expires_at_ms },
            },
            expires_at_ms: self.engine().now_ms() + TICKET_MS_MAX,
        };
        let put = documents::put(ticket_item(&secret)?, &document, Expect::Absent)?;
        let kept = documents::write(self.engine(), documents::TICKETS, owner, put, retry).await?;
        // A retry is told of the first ticket, which may be nearly over.
        let kept = kept.and_then(|item| item.data.as_ref()?.read::<TicketDocument>().ok());
        Ok(Ticket { secret, expires_at_ms: kept.ok_or_else(Problem::internal)?.expires_at_ms })
    }

    /// Who may open a socket with this ticket. It works once.
    pub async fn redeem(&self, ticket: &Secret) -> Result<Caller, Problem> {
        let refused = || Problem::unauthenticated("the ticket is used, over or unknown: ask for another");
        if !ticket.is_well_formed(Use::Ticket) {
            return Err(refused());
        }
        let id = ticket_item(ticket)?;
        let found = self.engine().reader().item(&documents::collection(documents::TICKETS), &id);
        let item = found.map_err(|error| from_store(&error))?.ok_or_else(refused)?;
        let document: TicketDocument =
            item.data.as_ref().and_then(|data| data.read().ok()).ok_or_else(refused)?;
        let caller = Caller {
            principal: document.subject.clone(),
            role: document.role,
            kinds: kinds_of(document.kinds.as_ref()),
            credential: match document.proof {
                Proof::Key(id) => Credential::Key(id),
                Proof::Session(id) => Credential::Session(id),
                Proof::Jwt { expires_at_ms } => Credential::Jwt { expires_at_ms },
            },
        };
        // Before it is used up: where nobody can tell, it is good for another try. What is revoked from here on is seen by
        // whoever watches the socket.
        let is_live = self.is_live(&caller)?;
        let delete = documents::delete(id, Expect::Version(item.version));
        documents::write(self.engine(), documents::TICKETS, &document.subject, delete, None).await.map_err(
            |problem| match problem.code {
                "not_found" | "conflict" => refused(),
                _ => problem,
            },
        )?;
        let in_time = self.engine().now_ms() < document.expires_at_ms;
        if in_time && is_live { Ok(caller) } else { Err(refused()) }
    }

    /// Deletes tickets that nobody redeemed, some at a time. The answer says where to go on.
    pub(super) async fn sweep_tickets(&self, after: Option<ItemId>) -> Option<ItemId> {
        let collection = documents::collection(documents::TICKETS);
        let filter = ItemFilter { after, ..ItemFilter::default() };
        let page = match self.engine().reader().items(&collection, &filter, SWEEP_MAX) {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "tickets could not be read");
                return None;
            }
        };
        let now_ms = self.engine().now_ms();
        let over = page.rows.iter().filter(|item| {
            let document = item.data.as_ref().and_then(|data| data.read::<TicketDocument>().ok());
            document.is_none_or(|document| document.expires_at_ms <= now_ms)
        });
        let system = Principal::system();
        let deletions = over.map(|item| {
            let delete = documents::delete(item.id.clone(), Expect::Version(item.version));
            documents::write(self.engine(), documents::TICKETS, &system, delete, None)
        });
        // Redeemed in between or swept by another node: gone either way.
        futures_util::future::join_all(deletions).await;
        page.more.then(|| page.rows.last().map(|item| item.id.clone())).flatten()
    }
}

fn ticket_item(secret: &Secret) -> Result<ItemId, Problem> {
    Ok(ItemId::new(format!("tkt_{}", secret.hash().hex()))?)
}
