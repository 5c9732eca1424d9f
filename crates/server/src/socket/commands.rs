//! Commands of a socket: handed to the engine as they come, answered as they are done.

use std::collections::HashMap;

use tenure_core::Command;
use tenure_engine::{Answer, Engine, ReplyTo, Request};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::access::rule_for;
use crate::command::{Asked, Rendered, parse};
use crate::idempotency::Key;
use crate::rate::{Rates, Who};
use crate::{App, Caller, Group, Problem};

/// What waits for its answer.
struct Waiting {
    /// The client's own id.
    id: Box<str>,
    asked: Asked,
}

/// The answers, by our own numbers.
type Channel = (mpsc::UnboundedSender<(u64, Answer)>, mpsc::UnboundedReceiver<(u64, Answer)>);

/// A socket's commands. Dropping it leaves every queue that they wait in.
#[derive(Default)]
pub(super) struct Commands {
    /// Made for the first command: most sockets only listen.
    channel: Option<Channel>,
    waiting: HashMap<u64, Waiting>,
    /// One that is looked up, by its number. Those behind it wait.
    explaining: Option<(u64, JoinHandle<Answer>)>,
    count: u64,
}

impl Commands {
    /// How many wait for their answer.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Hands a command in, if the caller may, now and so often.
    pub(super) async fn submit(
        &mut self,
        app: &App,
        (caller, who, rates): (&Caller, &Who, Option<&Rates>),
        (id, command, key): (&str, &str, Option<&str>),
    ) -> Result<(), Problem> {
        let parsed = parse(app, command, caller);
        let group = parsed.as_ref().ok().and_then(|asked| {
            let (method, path) = asked.op.route();
            rule_for(method, path).map(|rule| rule.group)
        });
        if let Some(rates) = rates {
            rates.check(group.unwrap_or(Group::Write), who.clone()).await?;
        }
        let asked = parsed?;
        if !app.identity().is_live(caller) {
            return Err(Problem::unauthenticated("the key, token or session is over"));
        }
        let idempotency = key.map(|key| Key::of_command(key, command)).transpose()?;
        let request = Request {
            command: Command {
                collection: asked.collection.clone(),
                actor: caller.principal.clone(),
                verb: asked.verb.clone(),
            },
            idempotency: idempotency.as_ref().map(Key::idempotency),
        };
        let (sender, _) = self.channel.get_or_insert_with(mpsc::unbounded_channel);
        self.count += 1;
        self.waiting.insert(self.count, Waiting { id: id.into(), asked });
        app.engine().submit(request, ReplyTo::Tagged(self.count, sender.clone()));
        Ok(())
    }

    /// The next answer, with the id of its command. Cancelling it loses nothing.
    pub(super) async fn answer(&mut self, app: &App) -> (Box<str>, Result<Rendered, Problem>) {
        loop {
            if let Some((tag, explaining)) = &mut self.explaining {
                let explained = explaining.await;
                let waiting = self.waiting.remove(tag);
                self.explaining = None;
                if let Some(Waiting { id, asked }) = waiting {
                    let answer = explained.map_err(|_| Problem::internal());
                    return (id, answer.and_then(|answer| asked.render(&answer, app.reader().epoch())));
                }
            }
            let answered = match &mut self.channel {
                Some((_, answers)) => answers.recv().await,
                None => std::future::pending().await,
            };
            let Some(answered) = answered else { std::future::pending().await };
            if let Some(answer) = self.render(app, answered) {
                return answer;
            }
        }
    }

    /// The next answer, if it is there already.
    pub(super) fn try_answer(&mut self, app: &App) -> Option<(Box<str>, Result<Rendered, Problem>)> {
        if self.explaining.is_some() {
            return None;
        }
        let (_, answers) = self.channel.as_mut()?;
        let answered = answers.try_recv().ok()?;
        self.render(app, answered)
    }

    /// `None` where the store may know better: reading it may take a while, and the answer comes after it.
    fn render(
        &mut self,
        app: &App,
        (tag, answer): (u64, Answer),
    ) -> Option<(Box<str>, Result<Rendered, Problem>)> {
        let asked = &self.waiting.get(&tag)?.asked;
        if Engine::is_unexplained(asked.verb.claim(), &answer) {
            let (engine, key, claim) = (app.engine().clone(), asked.collection.clone(), asked.verb.claim());
            let explain = move || engine.explain_lost(&key, claim, answer);
            self.explaining = Some((tag, tokio::task::spawn_blocking(explain)));
            return None;
        }
        let Waiting { id, asked } = self.waiting.remove(&tag)?;
        Some((id, asked.render(&answer, app.reader().epoch())))
    }
}
