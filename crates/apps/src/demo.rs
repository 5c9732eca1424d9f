//! The demonstration: something to try in every application, made through the applications themselves.

use crate::labels::{self, Labels};
use crate::raffle::{self, Raffles};
use crate::{Actor, Desk, Result, jobs, tasks};

/// The people of the demonstration.
#[derive(Clone, Debug)]
pub struct People {
    /// Overrides, configures.
    pub admin: Actor,
    /// Two who do the work.
    pub editors: [Actor; 2],
}

/// Loads what each application has to show. One that already has something is left as it is.
pub async fn load(desk: &Desk, labels: &Labels, raffles: &Raffles, people: &People) -> Result<()> {
    tasks::load_demo(desk, people).await?;
    labels::load_demo(labels, people).await?;
    jobs::load_demo(desk, people).await?;
    raffle::load_demo(raffles, people).await
}
