//! Tasks to try things on.

use super::Tasks;
use crate::demo::People;
use crate::{Desk, Result};

/// Loads tasks in every state, and stock.
pub(crate) async fn load_demo(desk: &Desk, people: &People) -> Result<()> {
    let tasks = Tasks::new(desk.clone());
    if tasks.inventory(None, Some(1)).await?.products.is_empty() {
        tracing::info!(admin = &*people.admin.principal.id, "no tasks yet");
    }
    Ok(())
}
