//! Commands of a socket: handed to the engine as they come, answered as they are done.

use tenure_core::Command;
use tenure_engine::{Answer, Named, ReplyTo, Request};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::command::{Question, Rendered, parse};
use crate::idempotency::Key;
use crate::rate::{Rates, Who};
use crate::{App, Caller, Group, Problem};

/// What waits for its answer.
struct Waiting {
    /// The client's own id.
    id: Box<str>,
    question: Question,
    /// The claim that it is about.
    named: Option<Named>,
}

/// All that wait, each in a place of its own. Places are used again, so that there are never more than wait at once.
#[derive(Default)]
struct Places {
    places: Vec<Option<Waiting>>,
    free: Vec<usize>,
}

impl Places {
    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Puts it somewhere, and tells where.
    fn put(&mut self, waiting: Waiting) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(waiting);
        place as u64
    }

    fn get(&self, place: u64) -> Option<&Waiting> {
        self.places.get(usize::try_from(place).ok()?)?.as_ref()
    }

    fn take(&mut self, place: u64) -> Option<Waiting> {
        let place = usize::try_from(place).ok()?;
        let waiting = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(waiting)
    }
}

/// The answers, by their places.
type Channel = (mpsc::UnboundedSender<(u64, Answer)>, mpsc::UnboundedReceiver<(u64, Answer)>);

/// A socket's commands. Dropping it leaves every queue that they wait in.
#[derive(Default)]
pub(super) struct Commands {
    /// Made for the first command: most sockets only listen.
    channel: Option<Channel>,
    waiting: Places,
    /// One that is looked up, by its place. Those behind it wait.
    looked_up: Option<(u64, JoinHandle<Answer>)>,
    /// What its caller was last found to be live at.
    live_at: Option<u64>,
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
        if let Some(rates) = rates {
            let rule = parsed.as_ref().ok().and_then(|asked| asked.op.rule());
            let group = rule.map_or(Group::Write, |rule| rule.group);
            if !rates.is_free(group) {
                rates.check(group, who.clone()).await?;
            }
        }
        let asked = parsed?;
        if !app.identity().is_still_live(caller, &mut self.live_at)? {
            return Err(Problem::unauthenticated("the key, token or session is over"));
        }
        let idempotency = key.map(|key| Key::of_command(key, command)).transpose()?;
        let (question, verb) = asked.split();
        let (collection, actor) = (question.collection.clone(), caller.principal.clone());
        let (sender, _) = self.channel.get_or_insert_with(mpsc::unbounded_channel);
        let command = Command { collection, actor, verb };
        let place = self.waiting.put(Waiting { id: id.into(), question, named: Named::of(&command) });
        let idempotency = idempotency.as_ref().map(Key::idempotency);
        let request = Request { command, idempotency };
        app.engine().submit(request, ReplyTo::Tagged(place, sender.clone()));
        Ok(())
    }

    /// The next answer, with the id of its command. Cancelling it loses nothing.
    pub(super) async fn answer(&mut self, app: &App) -> (Box<str>, Result<Rendered, Problem>) {
        loop {
            if let Some((place, found)) = &mut self.looked_up {
                let found = found.await;
                let waiting = self.waiting.take(*place);
                self.looked_up = None;
                if let Some(Waiting { id, question, .. }) = waiting {
                    let answer = found.map_err(|_| Problem::internal());
                    return (id, answer.and_then(|answer| question.render(&answer, &**app.reader())));
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
        if self.looked_up.is_some() {
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
        (place, answer): (u64, Answer),
    ) -> Option<(Box<str>, Result<Rendered, Problem>)> {
        let named = self.waiting.get(place)?.named.as_ref();
        if let Some(named) = named.filter(|named| named.is_unknown(&answer)) {
            let (engine, named) = (app.engine().clone(), named.clone());
            let look_up = move || engine.look_up(&named, answer);
            self.looked_up = Some((place, tokio::task::spawn_blocking(look_up)));
            return None;
        }
        let Waiting { id, question, .. } = self.waiting.take(place)?;
        Some((id, question.render(&answer, &**app.reader())))
    }
}
