//! A socket's life: who it is, then a snapshot or a replay, then events and answers until it ends.

use std::net::IpAddr;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tenure_core::CollectionKey;
use tenure_engine::StoreError;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;

use super::close::End;
use super::commands::Commands;
use super::fan::Seat;
use super::gate::Gate;
use super::message::{self, Message};
use super::pump::{Heard, Pump};
use crate::apps::raffle::RaffleForm;
use crate::limits::{SOCKET_HELLO_MAX, SOCKET_TURN};
use crate::line::Line;
use crate::rate::{Rates, Who};
use crate::stream::{Cursor, Live, Told};
use crate::{App, Caller, Group, Problem};

/// A socket that was asked for.
pub(super) struct Asked {
    pub(super) app: App,
    pub(super) key: CollectionKey,
    pub(super) from: Option<Cursor>,
    /// Who it is; `None` if it will say so itself.
    pub(super) caller: Option<Caller>,
    pub(super) rates: Option<Rates>,
    pub(super) address: IpAddr,
    /// Events read as they do on a raffle's page.
    pub(super) is_raffle: bool,
    pub(super) line: Line,
}

/// Runs a socket to its end.
pub(super) async fn run(asked: Asked, socket: WebSocketStream<Gate>) {
    let app = asked.app.clone();
    let _open = app.metrics().stream("ws");
    let mut pump = Pump::new(socket, asked.from.map(|cursor| cursor.seq));
    let mut epoch = app.reader().epoch();
    let end = live(asked, &mut pump, &mut epoch).await;
    if !matches!(end, End::Gone) {
        app.metrics().socket_closed(end.word());
        tracing::debug!(reason = end.word(), "a socket is closed");
    }
    pump.close(&end, epoch).await;
}

async fn live(asked: Asked, pump: &mut Pump, epoch: &mut u64) -> End {
    let caller = match hello(&asked, pump).await {
        Ok(caller) => caller,
        Err(end) => return end,
    };
    let Asked { app, key, from, rates, address, is_raffle, line, .. } = asked;
    let _present = is_raffle.then(|| app.audience().enter(&key));
    let who = Who::of(Some(&caller), address);
    let form = is_raffle.then(|| RaffleForm::new(&key, &caller));
    let stream = match Live::open(&app, &key, from).await {
        Ok(stream) => stream.in_form(form.clone()),
        Err(problem) => return End::Refused(problem),
    };
    *epoch = stream.epoch();
    let seat = line.bare().map(|line| app.fans().seat(&key, line, form));
    if let Some(seat) = &seat {
        pump.share(seat.outlet());
    }
    let over: Pin<Box<dyn Future<Output = End> + Send>> = Box::pin(over(app.clone(), caller.clone()));
    let over = FuturesUnordered::from_iter([over]);
    let commands = Commands::default();
    let mut session = Session { app, caller, who, rates, stream, seat, commands, over, line };
    let end = session.follow(pump).await;
    if let Some(cursor) = session.seat.as_mut().and_then(Seat::leave) {
        pump.told(cursor);
    }
    *epoch = session.stream.epoch();
    end
}

/// Who it is. Until that is known nothing is told and nothing is done.
async fn hello(asked: &Asked, pump: &mut Pump) -> Result<Caller, End> {
    if let Some(caller) = &asked.caller {
        return Ok(caller.clone());
    }
    let mut stopping = asked.app.stopping();
    let wants = pump.wants(0, false);
    let deadline = Instant::now() + SOCKET_HELLO_MAX;
    loop {
        let heard = tokio::select! {
            heard = pump.next(wants, 0, false) => heard,
            _ = stopping.wait_for(|stopping| *stopping) => return Err(End::Stopping),
            () = sleep_until(deadline) => return Err(End::NoHello),
        };
        let secret = match heard {
            Heard::End(end) => return Err(end),
            Heard::Changed => continue,
            Heard::Text(text) => match message::read(&text) {
                Ok(Message::Hello(secret)) => secret,
                Ok(_) => return Err(End::Refused(Problem::unauthenticated("say hello first"))),
                Err(wrong) => return Err(End::Refused(*wrong.problem)),
            },
        };
        return admit(asked, asked.app.identity().caller_of_secret(&secret)).await.map_err(End::Refused);
    }
}

/// Lets somebody in who has just said who it is, by a ticket or a first message. Guessing is signing in.
pub(super) async fn admit(asked: &Asked, found: Result<Caller, Problem>) -> Result<Caller, Problem> {
    let check = async |group, who| match &asked.rates {
        Some(rates) => rates.check(group, who).await.map(drop),
        None => Ok(()),
    };
    let caller = match found {
        Ok(caller) => caller,
        // As at the gate: that the store is away is no guess.
        Err(problem) if problem.is_away() => return Err(problem),
        Err(problem) => {
            check(Group::SignIn, Who::of(None, asked.address)).await?;
            return Err(problem);
        }
    };
    super::check_access(&caller, &asked.key)?;
    super::check_form(&asked.app, &caller, &asked.key, asked.is_raffle)?;
    check(Group::Stream, Who::of(Some(&caller), asked.address)).await?;
    Ok(caller)
}

/// Ends when the socket has to, whatever it does.
async fn over(app: App, caller: Caller) -> End {
    let mut stopping = app.stopping();
    tokio::select! {
        revoked = app.identity().revoked(&caller) => match revoked {
            Ok(()) => End::Revoked,
            // By a code with which a client comes back: who it is may be good.
            Err(problem) => End::Refused(problem),
        },
        _ = stopping.wait_for(|stopping| *stopping) => End::Stopping,
    }
}

/// What comes next for a socket.
enum Next {
    /// It is to be told this.
    Told(Told),
    /// It has been told everything up to this event by the fan, which goes on without it.
    Back(u64),
}

/// What comes next. While there is nothing the fan tells it, if it may. Cancelling this loses nothing.
async fn next(stream: &mut Live, mut seat: Option<&mut Seat>, may_join: bool) -> Result<Next, StoreError> {
    loop {
        if let Some(seat) = seat.as_mut().filter(|seat| seat.is_joined()) {
            let cursor = seat.handed().await;
            stream.skip_to(cursor);
            return Ok(Next::Back(cursor));
        }
        if let Some(told) = stream.next_now().await? {
            return Ok(Next::Told(told));
        }
        let has_joined = may_join && seat.as_mut().is_some_and(|seat| seat.join(stream));
        if !has_joined {
            stream.changed().await;
        }
    }
}

struct Session {
    app: App,
    caller: Caller,
    who: Who,
    rates: Option<Rates>,
    stream: Live,
    /// Where it is told together with others; `None` where only its own task can write, as over TLS.
    seat: Option<Seat>,
    commands: Commands,
    /// One future, kept so that it is asked only when it was woken and not at each of the socket's events.
    over: FuturesUnordered<Pin<Box<dyn Future<Output = End> + Send>>>,
    line: Line,
}

impl Session {
    /// Until it ends.
    async fn follow(&mut self, pump: &mut Pump) -> End {
        let mut timer = Box::pin(sleep_until(pump.deadline()));
        loop {
            let (waiting, is_live) = (self.commands.waiting(), self.stream.is_live());
            let wants = pump.wants(waiting, is_live);
            if pump.deadline() < timer.deadline() {
                timer.as_mut().reset(pump.deadline());
            }
            tokio::select! {
                biased;
                Some(end) = self.over.next() => return end,
                heard = pump.next(wants, waiting, is_live) => {
                    if let Some(end) = self.hear(heard, pump).await {
                        return end;
                    }
                }
                // Who is not read from cannot say that it leaves, and what it waits for is others' then.
                () = self.line.cut(), if !wants.read => return End::Gone,
                (id, answer) = self.commands.answer(&self.app) => {
                    self.answer(pump, &id, answer);
                    // A turn of the engine answers many: together they are one write.
                    while pump.has_room() && let Some((id, answer)) = self.commands.try_answer(&self.app) {
                        self.answer(pump, &id, answer);
                    }
                }
                next = next(&mut self.stream, self.seat.as_mut(), wants.join), if wants.events => match next {
                    Ok(Next::Back(cursor)) => pump.told(cursor),
                    Ok(Next::Told(Told::Event(event))) => {
                        pump.push_event(&event);
                        if pump.is_too_slow() {
                            return End::Slow;
                        }
                    }
                    Ok(Next::Told(Told::Snapshot(snapshot))) => pump.push_snapshot(snapshot),
                    Ok(Next::Told(Told::Resync { why, .. })) => {
                        pump.forget_cursor();
                        pump.push_text(format!(r#"{{"type":"resync","reason":"{}"}}"#, why.word()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a socket ends: its events could not be read");
                        return End::Failed;
                    }
                },
                () = &mut timer => {
                    if let Err(end) = pump.tick(wants.read) {
                        return end;
                    }
                    timer.as_mut().reset(pump.deadline());
                }
            }
        }
    }

    /// Takes what is heard, and with it what has come together with it: looking around for everything else after each
    /// message costs as much as the message.
    async fn hear(&mut self, mut heard: Heard, pump: &mut Pump) -> Option<End> {
        for left in (0..SOCKET_TURN).rev() {
            match heard {
                Heard::Text(text) => self.take(&text, pump).await,
                Heard::Changed => return None,
                Heard::End(end) => return Some(end),
            }
            if left == 0 {
                break;
            }
            heard = pump.more(self.commands.waiting()).await?;
        }
        None
    }

    async fn take(&mut self, text: &str, pump: &mut Pump) {
        let read = message::read(text);
        if !matches!(read, Ok(Message::Command { .. }))
            && let Some(rates) = &self.rates
            && let Err(problem) = rates.check(Group::Read, self.who.clone()).await
        {
            return self.refuse(pump, None, &problem);
        }
        match read {
            Ok(Message::Ping) => pump.push_text(r#"{"type":"pong"}"#.to_owned()),
            Ok(Message::Hello(_)) => {
                let problem = Problem::invalid("type", "you have said who you are already");
                self.refuse(pump, None, &problem);
            }
            Ok(Message::Command { id, command, key }) => {
                let by = (&self.caller, &self.who, self.rates.as_ref());
                let asked = (id, command, key.as_deref());
                if let Err(problem) = self.commands.submit(&self.app, by, asked).await {
                    self.answer(pump, id, Err(problem));
                }
            }
            Err(wrong) => self.refuse(pump, wrong.id, &wrong.problem),
        }
    }

    fn answer(&self, pump: &mut Pump, id: &str, answer: Result<crate::command::Rendered, Problem>) {
        if let Err(problem) = &answer {
            self.app.metrics().refused(problem.code);
        }
        pump.push_reply(message::reply(id, answer));
    }

    fn refuse(&self, pump: &mut Pump, id: Option<&str>, problem: &Problem) {
        if let Some(id) = id {
            self.answer(pump, id, Err(problem.clone()));
        } else {
            self.app.metrics().refused(problem.code);
            pump.push_text(message::error(problem));
        }
    }
}
