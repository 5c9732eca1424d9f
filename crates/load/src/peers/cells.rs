//! What is measured: Tenure and what people would use instead.

use tenure_load::Result;
use tenure_load::row_locks::Seller;

use super::drive::{Caller, Way};
use super::etcd::{Etcd, Leases};
use super::postgres::Postgres;
use super::redis::{How, Locks, Redis};
use super::tenure::{Claims, Pipeline, Tenure};
use tenure_load::Dice;

/// Whoever runs. A peer that is not there is `None`.
pub(crate) struct Peers {
    pub(crate) tenure: Tenure,
    pub(crate) always: Option<Redis>,
    pub(crate) everysec: Option<Redis>,
    pub(crate) no: Option<Redis>,
    pub(crate) etcd: Option<Etcd>,
    pub(crate) postgres: Option<Postgres>,
}

/// A way to hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    Http,
    Socket,
    Redis(Fsync, How),
    RedisPipelined,
    Etcd,
    RowLocks,
    Ticketing,
}

/// Redis's own word for when what it confirms is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fsync {
    Always,
    Everysec,
    No,
}

/// The designs of the main part, and how many items a claim of theirs has. What is compared stands near.
pub(crate) const MAIN: &[(Design, u64)] = &[
    (Design::Http, 1),
    (Design::Redis(Fsync::Always, How::OneByOne), 1),
    (Design::Redis(Fsync::Everysec, How::OneByOne), 1),
    (Design::Redis(Fsync::No, How::OneByOne), 1),
    (Design::RowLocks, 1),
    (Design::Etcd, 1),
    (Design::Http, 10),
    (Design::Redis(Fsync::Always, How::Script), 10),
    (Design::Redis(Fsync::Everysec, How::Script), 10),
    (Design::Redis(Fsync::No, How::Script), 10),
    (Design::Redis(Fsync::Always, How::OneByOne), 10),
    (Design::RowLocks, 10),
    (Design::Etcd, 10),
    (Design::Ticketing, 10),
    (Design::Socket, 1),
    (Design::RedisPipelined, 1),
];

impl Design {
    /// Its name in tables and plots.
    pub(crate) fn name(self, per_claim: u64) -> String {
        let of = if per_claim == 1 { "one" } else { "ten" };
        match self {
            Self::Http => format!("tenure http {of}"),
            Self::Socket => "tenure socket pipelined".to_owned(),
            Self::Redis(fsync, How::OneByOne) if per_claim == 1 => format!("redis {} {of}", fsync.word()),
            Self::Redis(fsync, How::OneByOne) => format!("redis {} {of} naive", fsync.word()),
            Self::Redis(fsync, How::Script) => format!("redis {} {of} script", fsync.word()),
            Self::RedisPipelined => "redis always pipelined".to_owned(),
            Self::Etcd => format!("etcd {of}"),
            Self::RowLocks => format!("postgresql row locks {of}"),
            Self::Ticketing => "ticketing stack ten".to_owned(),
        }
    }
}

impl Fsync {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::No => "no",
        }
    }
}

impl Peers {
    fn redis(&self, fsync: Fsync) -> Option<&Redis> {
        match fsync {
            Fsync::Always => self.always.as_ref(),
            Fsync::Everysec => self.everysec.as_ref(),
            Fsync::No => self.no.as_ref(),
        }
    }

    /// Whether what a design needs is there.
    pub(crate) fn has(&self, design: Design) -> bool {
        match design {
            Design::Http | Design::Socket => true,
            Design::Redis(fsync, _) => self.redis(fsync).is_some(),
            Design::RedisPipelined => self.always.is_some(),
            Design::Etcd => self.etcd.is_some(),
            Design::RowLocks => self.postgres.is_some(),
            Design::Ticketing => self.everysec.is_some() && self.postgres.is_some(),
        }
    }

    /// Syncs of who serves a design that were made to take longer, so far.
    pub(crate) fn delayed(&self, design: Design) -> u64 {
        let running = match design {
            Design::Http | Design::Socket => Some(&self.tenure.running),
            Design::Redis(fsync, _) => self.redis(fsync).map(|redis| &redis.running),
            Design::RedisPipelined => self.always.as_ref().map(|redis| &redis.running),
            Design::Etcd => self.etcd.as_ref().map(|etcd| &etcd.running),
            Design::RowLocks | Design::Ticketing => self.postgres.as_ref().map(|postgres| &postgres.running),
        };
        running.map_or(0, |running| running.delayed.count())
    }

    /// Callers of a design, each with a connection of its own, made when it is measured: servers close those that
    /// are idle. Row locks have a pool instead.
    pub(crate) async fn callers(
        &self,
        design: Design,
        count: usize,
        (per_claim, round): (u64, u16),
    ) -> Result<Vec<Caller>> {
        let mut callers = Vec::with_capacity(count);
        for number in 0..count as u64 {
            let way = self.way(design).await?;
            callers.push(Caller::new(way, number, per_claim));
        }
        // Rounds of the same design begin elsewhere.
        let mut dice = Dice::new(callers.len() as u64 + per_claim + u64::from(round) * 1_000);
        for caller in &mut callers {
            caller.dice = Dice::new(dice.below(u64::from(u32::MAX)) + 1);
        }
        Ok(callers)
    }

    async fn way(&self, design: Design) -> Result<Way> {
        let missing = "a peer that is not there";
        Ok(match design {
            Design::Http => Way::Http(Claims::connect(&self.tenure.target).await?),
            Design::Socket => Way::Socket(Pipeline::connect(&self.tenure.target).await?),
            Design::Redis(fsync, how) => {
                Way::Redis(Locks::connect(self.redis(fsync).ok_or(missing)?.port, how).await?)
            }
            Design::RedisPipelined => {
                let redis = self.always.as_ref().ok_or(missing)?;
                Way::RedisPipelined(Locks::connect(redis.port, How::OneByOne).await?)
            }
            Design::Etcd => Way::Etcd(Leases::connect(self.etcd.as_ref().ok_or(missing)?.port).await?),
            Design::Ticketing => {
                let redis = self.everysec.as_ref().ok_or(missing)?;
                let locks = Locks::connect(redis.port, How::OneByOne).await?;
                let seller = Seller::connect(&self.postgres.as_ref().ok_or(missing)?.url).await?;
                Way::Ticketing(locks, Box::new(seller))
            }
            Design::RowLocks => return Err("row locks have a pool".into()),
        })
    }
}
