//! Writing and deleting items.

use tenure_core::command::PutItem;
use tenure_core::event::{Acted, Written};
use tenure_core::refusal::Unavailable;
use tenure_core::{Claim, Expect, Fact, Guard, Item, ItemId, Refusal, Reply};

use super::Trial;
use super::claims::{gravest, held, written};
use super::timers::{lease_end, renewable};

impl Trial<'_> {
    pub(super) fn put_item(&mut self, put: &PutItem) -> Result<Reply, Refusal> {
        let id = &put.write.item;
        let under = self.guarded(put.guard.as_ref())?;
        let found = self.item(id);
        if let Some(item) = &found {
            self.not_anothers(item)?;
        }
        expected(put.expect, &put.write.item, found.as_deref())?;
        let write = Written {
            id: id.clone(),
            version: found.as_ref().map_or(1, |item| item.version + 1),
            status: put
                .write
                .status
                .clone()
                .or_else(|| found.as_ref().map(|item| item.status.clone()))
                .unwrap_or_else(|| self.policy.claimable[0].clone()),
            data: put.write.data.clone().or_else(|| found.as_ref().and_then(|item| item.data.clone())),
        };
        let before = found.as_deref().map(written);
        self.happens(Fact::ItemPut { write, before, under });
        let item = self.space.items[id].clone();
        Ok(Reply::Item { item, created: found.is_none() })
    }

    pub(super) fn delete_item(
        &mut self,
        id: &ItemId,
        expect: Expect,
        guard: Option<&Guard>,
    ) -> Result<Reply, Refusal> {
        let item = self.item(id).ok_or_else(|| Refusal::not_found("item", id))?;
        let under = self.guarded(guard)?;
        if let Some(claim) = self.holder_of(&item) {
            return Err(is_held(&item, &claim, self.policy.session_exclusive));
        }
        expected(expect, id, Some(&item))?;
        self.happens(Fact::ItemDeleted { before: written(&item), under });
        Ok(Reply::Done)
    }

    fn guarded(&mut self, guard: Option<&Guard>) -> Result<Option<Acted>, Refusal> {
        match guard {
            None => Ok(None),
            Some(Guard::Claim { claim, token }) => {
                let claim = self.mine(*claim, Some(*token))?;
                Ok(Some(self.acts(&claim)))
            }
            Some(Guard::NotHeldByOther { item }) => {
                let item = self.item(item).ok_or_else(|| Refusal::not_found("item", item))?;
                self.not_anothers(&item)?;
                Ok(None)
            }
            Some(Guard::Holds { item, token }) => {
                let item = self.item(item).ok_or_else(|| Refusal::not_found("item", item))?;
                let Some(claim) = self.holder_of(&item) else {
                    return Err(Refusal::NotHeld { item: item.id.clone() });
                };
                if claim.holder.id != self.actor.id {
                    return Err(is_held(&item, &claim, self.policy.session_exclusive));
                }
                match *token {
                    Some(given) if !(claim.number..=claim.token).contains(&given) => {
                        Err(Refusal::StaleToken { given, current: claim.token })
                    }
                    _ => Ok(Some(self.acts(&claim))),
                }
            }
            Some(Guard::Unchanged { item, version }) => {
                let current = self.item(item).map_or(0, |item| item.version);
                if current == *version {
                    Ok(None)
                } else {
                    Err(Refusal::Conflict { expected: *version, current })
                }
            }
        }
    }

    /// Something real is done under the claim: a sign of life, where it can be renewed.
    fn acts(&self, claim: &Claim) -> Acted {
        let mut expires_at_ms = claim.expires_at_ms;
        if renewable(&self.policy, claim) {
            let lease_ms = lease_end(&self.policy, self.now_ms, claim.ttl_ms, self.now_ms);
            expires_at_ms = expires_at_ms.max(lease_ms);
        }
        Acted { claim: claim.number, expires_at_ms }
    }

    fn not_anothers(&mut self, item: &Item) -> Result<(), Refusal> {
        match self.holder_of(item) {
            Some(claim) if claim.holder.id != self.actor.id => {
                Err(is_held(item, &claim, self.policy.session_exclusive))
            }
            _ => Ok(()),
        }
    }
}

fn is_held(item: &Item, claim: &Claim, names_session: bool) -> Refusal {
    gravest(vec![Unavailable { item: item.id.clone(), why: held(claim, names_session) }])
}

fn expected(expect: Expect, id: &ItemId, found: Option<&Item>) -> Result<(), Refusal> {
    let current = found.map_or(0, |item| item.version);
    match expect {
        Expect::Any => Ok(()),
        Expect::Present if current > 0 => Ok(()),
        Expect::Present => Err(Refusal::not_found("item", id)),
        Expect::Absent if current == 0 => Ok(()),
        Expect::Absent => Err(Refusal::Conflict { expected: 0, current }),
        Expect::Version(version) if version == current => Ok(()),
        Expect::Version(version) => Err(Refusal::Conflict { expected: version, current }),
    }
}
