//! Ask the holder to let go. It changes no lock; the holder sees it in the stream.

use super::held::{any_claim, check_text, require_active};
use crate::draft::Draft;
use crate::{Fact, Policy, Refusal, Reply, Text};

pub(crate) fn nudge(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    message: Option<&Text>,
) -> Result<Reply, Refusal> {
    if let Some(message) = message {
        check_text("message", message, false)?;
    }
    let claim = any_claim(draft, policy, number)?;
    require_active(draft, policy, &claim)?;
    draft.record(Fact::Nudged { claim: number, message: message.cloned() });
    Ok(Reply::Claim { claim })
}
