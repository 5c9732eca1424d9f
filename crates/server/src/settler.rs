//! Settles payments that nobody finished: at the start, and then whenever one is due.

use std::time::Duration;

use crate::App;

/// How often it looks. What is due is known in memory, so that looking costs nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it reads everything, for what another node has begun and not finished.
const RECOVER_EVERY: u32 = 600;

pub(crate) async fn run(app: App) {
    match app.payments().recover(true).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "open payments are looked up"),
        Err(refusal) => tracing::error!("open payments cannot be read: {refusal}"),
    }
    let mut running = tokio::task::JoinSet::new();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for count in 1_u32.. {
        looks.tick().await;
        app.payments().settle_beside(&mut running);
        if count % RECOVER_EVERY == 0
            && let Err(refusal) = app.payments().recover(false).await
        {
            tracing::warn!("open payments cannot be read: {refusal}");
        }
    }
}
