//! `tenure raffle verify`: does a draw again.

use std::io::Read;

use clap::{Args, Subcommand};
use tenure_apps::raffle::Draw;

use crate::bench::Result;
use crate::exit::{Exit, USAGE};
use crate::remote::Remote;

/// Raffles.
#[derive(Subcommand)]
pub(crate) enum RaffleCommand {
    /// Do a draw again, and compare: the seed with the hash that was published when the raffle opened, and
    /// the winner with what the seed picks among the sold numbers.
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct Verify {
    /// A file with the draw (- for standard input), or the address of one: http://…/raffles/ID/draw.
    draw: String,
    /// The hash that you wrote down when the raffle opened. Without it the draw is only compared with itself.
    #[arg(long, value_name = "HASH")]
    seed_hash: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl RaffleCommand {
    pub(crate) fn run(self) -> Result {
        let Self::Verify(verify) = self;
        verify.run()
    }
}

impl Verify {
    fn run(&self) -> Result {
        let draw = self.read()?;
        let verified = draw.verify().map_err(ToOwned::to_owned);
        let verified = verified.and_then(|()| match &self.seed_hash {
            Some(known) if !known.eq_ignore_ascii_case(&draw.seed_hash) => {
                Err("the draw is bound to another seed than the one that you wrote down".to_owned())
            }
            _ => Ok(()),
        });
        if let Err(wrong) = verified {
            return Err(Exit::new(1, format!("the draw of {} does not hold: {wrong}", draw.raffle_id)).into());
        }
        let count = draw.sold.len();
        println!("The draw of {} holds: of {count} sold numbers {} wins.", draw.raffle_id, draw.winner);
        println!("Seed hash {}", draw.seed_hash);
        if self.seed_hash.is_none() {
            println!("Compare it with the one that was published when the raffle opened.");
        }
        Ok(())
    }

    fn read(&self) -> Result<Draw> {
        if self.draw.starts_with("http://") || self.draw.starts_with("https://") {
            let wrong = || Exit::new(USAGE, "an address of a draw reads http://…/raffles/ID/draw");
            let (server, rest) = self.draw.split_once("/raffles/").ok_or_else(wrong)?;
            let id = rest.strip_suffix("/draw").filter(|id| !id.contains('/')).ok_or_else(wrong)?;
            let draw = self.remote.at(server).ask(async |client| client.raffle_draw(id).await)?;
            return Ok(serde_json::from_value(draw)?);
        }
        let text = if self.draw == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else {
            std::fs::read_to_string(&self.draw)
                .map_err(|error| Exit::new(USAGE, format!("{}: {error}", self.draw)))?
        };
        let draw = serde_json::from_str(&text);
        Ok(draw.map_err(|error| Exit::new(USAGE, format!("{}: this is no draw: {error}", self.draw)))?)
    }
}
