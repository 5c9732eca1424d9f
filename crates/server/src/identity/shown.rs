//! What a connection last showed, and whose it was: whoever sends the same key again is the same, as long as no key has
//! changed. Looking it up takes a hash and several strings.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use super::Identity;
use crate::{Caller, Credential, Problem};

/// The last key of a connection.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    value: HeaderValue,
    caller: Caller,
    /// How often keys had changed by then.
    found_at: u64,
}

impl Last {
    /// A proxy may send others' requests on the same connection, so how long this takes must not tell.
    fn is(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        value.as_bytes().ct_eq(self.value.as_bytes()).into()
    }
}

impl Identity {
    /// Who sends this, on a connection that may have sent it before.
    pub(super) fn caller_of_shown(&self, headers: &HeaderMap, shown: &Shown) -> Result<Caller, Problem> {
        let changes = self.keys().changes();
        let mut shown = shown.0.lock();
        if let Some(last) = &*shown
            && last.found_at == changes
            && last.is(headers)
        {
            return Ok(last.caller.clone());
        }
        *shown = None;
        let caller = self.caller_of_bearer(headers)?;
        // A token runs out, and a key that only the store knows can go there without a change here.
        if let Credential::Key(id) = &caller.credential
            && self.keys().get(id).is_some()
            && let Some(value) = headers.get(AUTHORIZATION)
        {
            let mut value = value.clone();
            value.set_sensitive(true);
            *shown = Some(Last { value, caller: caller.clone(), found_at: changes });
        }
        Ok(caller)
    }
}
