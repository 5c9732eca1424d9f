//! Callers at once, for a time.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::bench::Result;
use crate::bench::load::{Measured, new_histogram};
use crate::progress::bar;

/// One caller.
pub(crate) trait Step {
    /// Asks something and takes the answers; how many commands were answered.
    async fn step(&mut self, latency: &mut Histogram<u64>) -> io::Result<u64>;
    /// Lets go of what it holds.
    async fn finish(&mut self) -> io::Result<()>;
}

/// Runs the callers for a time. The first that fails ends them all.
pub(crate) async fn run<S: Step + 'static>(
    what: &'static str,
    callers: Vec<S>,
    time: Duration,
) -> Result<Measured> {
    let (stop, commands) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let latency = Rc::new(RefCell::new(new_histogram()));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut caller in callers {
        let (stop, commands, latency) = (stop.clone(), commands.clone(), latency.clone());
        tasks.spawn_local(async move {
            let mut own = new_histogram();
            while !stop.get() {
                let answered = caller.step(&mut own).await?;
                commands.set(commands.get() + answered);
            }
            latency.borrow_mut().add(&own).map_err(io::Error::other)?;
            caller.finish().await
        });
    }
    let progress = bar(what, u64::try_from(time.as_millis())?);
    let slice = (time / 50).max(Duration::from_millis(1));
    // At least one answer, however slow the machine: no figure is nothing.
    while started.elapsed() < time || commands.get() == 0 {
        tokio::time::sleep(slice).await;
        progress.set_position(u64::try_from(started.elapsed().as_millis())?);
        if let Some(ended) = tasks.try_join_next() {
            ended??;
        }
    }
    let (elapsed, commands) = (started.elapsed(), commands.get());
    stop.set(true);
    progress.finish_and_clear();
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let latency = latency.borrow().clone();
    Ok(Measured { commands, elapsed, latency })
}
