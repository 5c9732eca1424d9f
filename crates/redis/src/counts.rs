//! Rates that all nodes count together: one number for each key in Redis, the time at which its allowance is
//! whole again (GCRA), by Redis' own clock. A key is gone as soon as that time has come, so that only who
//! has asked within its window takes room.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::limits::{COUNT, COUNTS_AT_ONCE_MAX, COUNTS_WAITING_MAX, REPLY};
use crate::wire::{Result, Value, Wire, in_time, refused, write};
use crate::{Pause, Redis};

/// KEYS: what is counted. ARGV: microseconds for one more, how many at once, how many now.
/// Answers 1 and how many are left, or 0 and the microseconds until there are enough.
const SCRIPT: &str = "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local period, count = tonumber(ARGV[1]), tonumber(ARGV[3])
local most = now + period * tonumber(ARGV[2])
local whole = tonumber(redis.call('GET', KEYS[1]) or now)
whole = math.min(math.max(whole, now), most) + period * count
if whole > most then return {0, whole - most} end
redis.call('SET', KEYS[1], string.format('%.0f', whole), 'PX', math.ceil((whole - now) / 1000))
return {1, math.floor((most - whole) / period)}";

/// What is to be counted.
#[derive(Clone, Debug)]
pub struct Count {
    /// Who asks for what.
    pub key: String,
    /// One more is allowed after each of these.
    pub period: Duration,
    /// So many at once.
    pub burst: u32,
    /// So many now.
    pub count: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// They are allowed.
    Allowed {
        /// So many more are.
        left: u32,
    },
    /// They are not, and were not counted.
    Refused {
        /// Until they would be.
        wait: Duration,
    },
}

/// Counts over one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Counts {
    redis: Redis,
    sender: Sender<(Count, oneshot::Sender<Counted>)>,
}

impl Counts {
    /// Begins to count, on the runtime of the caller, until the last of these is dropped.
    #[must_use]
    pub fn start(redis: &Redis) -> Self {
        let (sender, receiver) = channel(COUNTS_WAITING_MAX);
        tokio::spawn(run(redis.clone(), receiver));
        Self { redis: redis.clone(), sender }
    }

    /// Counts; `None` when Redis does not say in time, and the caller has to count alone.
    pub async fn count(&self, count: Count) -> Option<Counted> {
        if !self.redis.counts().is_there() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        self.sender.try_send((count, reply)).ok()?;
        timeout(COUNT, answer).await.ok()?.ok()
    }
}

async fn run(redis: Redis, mut receiver: Receiver<(Count, oneshot::Sender<Counted>)>) {
    let mut pause = Pause::default();
    loop {
        let failed = match begin(&redis).await {
            Ok((mut wire, script)) => {
                redis.counts().came();
                pause.reset();
                match serve(&mut wire, &script, &mut receiver).await {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        redis.counts().left(&failed);
        // Who is waiting hears at once that it counts alone.
        while receiver.try_recv().is_ok() {}
        if receiver.is_closed() {
            return;
        }
        pause.wait().await;
    }
}

/// A connection, and the name under which it knows the script.
async fn begin(redis: &Redis) -> Result<(Wire, String)> {
    let mut wire = Wire::connect(redis.address()).await?;
    match wire.ask(&["SCRIPT", "LOAD", SCRIPT]).await? {
        Value::Text(name) => Ok((wire, name)),
        _ => Err(refused("nothing about the script")),
    }
}

/// Counts whatever waits, together. Ends without an error when nobody will ask again.
async fn serve(
    wire: &mut Wire,
    script: &str,
    receiver: &mut Receiver<(Count, oneshot::Sender<Counted>)>,
) -> Result<()> {
    let mut asked = Vec::new();
    loop {
        asked.clear();
        if receiver.recv_many(&mut asked, COUNTS_AT_ONCE_MAX).await == 0 {
            return Ok(());
        }
        // Who has given up is not counted.
        asked.retain(|(_, reply)| !reply.is_closed());
        let mut bytes = Vec::new();
        for (count, _) in &asked {
            let period = count.period.as_micros().max(1).to_string();
            let (burst, now) = (count.burst.to_string(), count.count.to_string());
            write(&mut bytes, &["EVALSHA", script, "1", &count.key, &period, &burst, &now]);
        }
        wire.send(&bytes).await?;
        for (_, reply) in asked.drain(..) {
            let counted = read(in_time(REPLY, wire.next()).await?)?;
            let _ = reply.send(counted);
        }
    }
}

fn read(value: Value) -> Result<Counted> {
    let strange = || refused("nothing about the count");
    match value {
        Value::List(parts) => match parts[..] {
            [Value::Number(1), Value::Number(left)] => {
                Ok(Counted::Allowed { left: u32::try_from(left).map_err(|_| strange())? })
            }
            [Value::Number(0), Value::Number(wait)] => {
                let wait = Duration::from_micros(u64::try_from(wait).map_err(|_| strange())?);
                Ok(Counted::Refused { wait })
            }
            _ => Err(strange()),
        },
        Value::Error(words) => Err(refused(&words)),
        _ => Err(strange()),
    }
}
