//! One channel that everybody speaks on and hears. Redis keeps nothing of it: who is not there misses it.

use std::io::{Error, ErrorKind};

use tokio::time::timeout;

use crate::Redis;
use crate::limits::{PING_EVERY, REPLY};
use crate::wire::{Result, Value, Wire, write};

/// Says things.
#[derive(Debug)]
pub struct Speaker(Wire);

/// Hears things.
#[derive(Debug)]
pub struct Listener(Wire);

impl Redis {
    /// A connection that speaks. Who is subscribed cannot, so there are two.
    pub async fn speaker(&self) -> std::io::Result<Speaker> {
        Wire::connect(self.address()).await.map(Speaker)
    }

    /// A connection that hears a channel, from here on.
    pub async fn listener(&self, channel: &str) -> std::io::Result<Listener> {
        let mut wire = Wire::connect(self.address()).await?;
        wire.ask(&["SUBSCRIBE", channel]).await?;
        Ok(Listener(wire))
    }
}

impl Speaker {
    /// Says something to everyone who listens; how many do.
    pub async fn say(&mut self, channel: &str, text: &str) -> std::io::Result<i64> {
        match self.0.ask(&["PUBLISH", channel, text]).await? {
            Value::Number(count) => Ok(count),
            _ => Err(Error::new(ErrorKind::InvalidData, "what answers is no Redis")),
        }
    }
}

impl Listener {
    /// What is said next. A line that is silent is asked whether it is there, so that one that nobody
    /// closed is found out too. Giving up loses nothing.
    pub async fn hear(&mut self) -> std::io::Result<String> {
        let mut asked = false;
        loop {
            let wait = if asked { REPLY } else { PING_EVERY };
            match timeout(wait, self.0.next()).await {
                Ok(said) => {
                    asked = false;
                    if let Some(text) = message(said?) {
                        return Ok(text);
                    }
                }
                Err(_) if asked => {
                    return Err(Error::new(ErrorKind::TimedOut, "Redis did not answer in time"));
                }
                Err(_) => {
                    asked = true;
                    ping(&mut self.0).await?;
                }
            }
        }
    }
}

async fn ping(wire: &mut Wire) -> Result<()> {
    let mut bytes = Vec::new();
    write(&mut bytes, &["PING"]);
    wire.send(&bytes).await
}

/// `message`, the channel, the text; everything else is no news.
fn message(said: Value) -> Option<String> {
    let Value::List(parts) = said else { return None };
    match <[Value; 3]>::try_from(parts).ok()? {
        [Value::Text(sort), _, Value::Text(text)] if sort == "message" => Some(text),
        _ => None,
    }
}
