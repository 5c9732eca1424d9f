//! Preparing a task: made, given lines, edited, validated, made ready, cancelled.

use std::collections::BTreeSet;

use tenure_core::command::Complete;
use tenure_core::{Claim, Expect, Guard, ItemId, Verb};

use super::model::{LineDoc, TaskDoc};
use super::read::show_line;
use super::{
    CODE_BYTES_MAX, EditLine, LINES_MAX, Line, Mode, NewLine, NewTask, QUANTITY_MAX, SERIALS_MAX, TASKS,
    TITLE_BYTES_MAX, Task, Tasks, holds, line_id, status,
};
use crate::{Actor, Desk, Document, Done, Permission, Refusal, Result, put, text};

impl Tasks {
    /// Makes a task, as a draft.
    pub async fn create(&self, actor: &Actor, new: NewTask) -> Result<Done<Task>> {
        actor.require(Permission::InventoryManage)?;
        let title = text::title("title", &new.title, TITLE_BYTES_MAX)?;
        if new.lines.len() > LINES_MAX {
            return Err(Refusal::invalid("lines", format!("a task has at most {LINES_MAX} lines")));
        }
        for (index, line) in new.lines.iter().enumerate() {
            check(line, &format!("lines[{index}]."))?;
        }
        let id = ItemId::new(self.desk.fresh_id(TASKS.0))?;
        let task = TaskDoc { title, lines: new.lines.len(), finalized: None };
        let mut verbs =
            vec![Verb::CreateCollection, put(&id, &status("draft"), &task, Expect::Absent, None)?];
        for (index, line) in new.lines.into_iter().enumerate() {
            verbs.push(new_line(&id, index + 1, line, None)?);
        }
        let group = Verb::Group(verbs);
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, || Ok(group.clone())).await?;
        // A retry's own id is not the one that was made.
        let made = done.written(TASKS)?;
        let task = self.get(actor, made.id.as_str())?;
        Ok(done.show(task))
    }

    /// Adds a line: to a draft, or to a task that the actor processes.
    pub async fn add_line(&self, actor: &Actor, id: &str, line: NewLine) -> Result<Done<Line>> {
        actor.require(Permission::InventoryManage)?;
        check(&line, "")?;
        let plan = || {
            let task = self.task(id)?;
            still_open(&task)?;
            // Nobody can hold a draft.
            let guard = (task.item.status.as_str() != "draft").then(|| holds(&task));
            let number = task.data.lines + 1;
            if number > LINES_MAX {
                return Err(Refusal::invalid("lines", format!("a task has at most {LINES_MAX} lines")));
            }
            let data = TaskDoc { lines: number, ..task.data.clone() };
            let added = new_line(&task.item.id, number, line.clone(), guard.clone())?;
            Ok(Verb::Group(vec![task.put(&task.item.status, &data, guard)?, added]))
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await?;
        let line = written_line(&done)?;
        Ok(done.show(line))
    }

    /// Changes a line, which then is `pending` again.
    pub async fn edit_line(
        &self,
        actor: &Actor,
        id: &str,
        line: &str,
        edit: &EditLine,
    ) -> Result<Done<Line>> {
        let change = |found: &LineDoc| {
            let line = merge(&found.line, edit);
            check(&line, "")?;
            Ok((status("pending"), LineDoc { line, error: None }))
        };
        self.on_line(actor, id, line, "edit-line", change).await
    }

    /// Somebody has looked at the line and found it right.
    pub async fn validate_line(&self, actor: &Actor, id: &str, line: &str) -> Result<Done<Line>> {
        let change = |found: &LineDoc| {
            check(&found.line, "")?;
            Ok((status("validated"), LineDoc { error: None, ..found.clone() }))
        };
        self.on_line(actor, id, line, "validate-line", change).await
    }

    /// The draft can be processed.
    pub async fn ready(&self, actor: &Actor, id: &str) -> Result<Done<Task>> {
        self.on_task(actor, id, |task, _| match task.item.status.as_str() {
            "draft" => Ok(Some(task.put(&status("ready"), &task.data, None)?)),
            "ready" => Ok(None),
            _ => Err(wrong_status(task, "only a draft becomes ready")),
        })
        .await
    }

    /// Nobody will process it. What was applied stays applied.
    pub async fn cancel(&self, actor: &Actor, id: &str) -> Result<Done<Task>> {
        self.on_task(actor, id, |task, claim| {
            let cancelled = status("cancelled");
            match task.item.status.as_str() {
                "cancelled" => return Ok(None),
                "completed" => return Err(wrong_status(task, "its lines are applied")),
                _ => {}
            }
            match claim.filter(|claim| claim.holder.id == actor.principal.id) {
                // The lock ends with it.
                Some(claim) => Ok(Some(Verb::Complete(Complete {
                    claim: claim.number,
                    token: Some(claim.token),
                    status: Some(cancelled),
                    data: None,
                    items: Vec::new(),
                }))),
                None => Ok(Some(task.put(&cancelled, &task.data, None)?)),
            }
        })
        .await
    }

    async fn on_task(
        &self,
        actor: &Actor,
        id: &str,
        plan: impl Fn(&Document<TaskDoc>, Option<Claim>) -> Result<Option<Verb>>,
    ) -> Result<Done<Task>> {
        actor.require(Permission::InventoryManage)?;
        let plan = || {
            let (task, claim) = self.held(id)?;
            plan(&task, claim)
        };
        let done = self.desk.change_if(actor, &self.collection, Desk::OWN_STEP, plan).await?;
        let task = self.get(actor, id)?;
        Ok(match done {
            Some(done) => done.show(task),
            None => Done { at_ms: task.server_time.0, value: task, replayed: false },
        })
    }

    /// Changes a line under the actor's own lock of its task, and the task with it.
    async fn on_line(
        &self,
        actor: &Actor,
        id: &str,
        line: &str,
        action: &str,
        change: impl Fn(&LineDoc) -> Result<(tenure_core::Status, LineDoc)>,
    ) -> Result<Done<Line>> {
        actor.require(Permission::InventoryManage)?;
        let plan = || {
            let task = self.task(id)?;
            still_open(&task)?;
            let line = self.line(&task, line)?;
            if line.item.status.as_str() == "applied" {
                return Err(Refusal::WrongStatus {
                    what: "line",
                    id: line_number(&line.item.id).to_owned(),
                    status: "applied".to_owned(),
                    message: "the stock has changed by it".into(),
                });
            }
            let (status, data) = change(&line.data)?;
            let guard = Some(holds(&task));
            let written = line.put(&status, &data, guard.clone())?;
            Ok(Verb::Group(vec![written, task.put(&task.item.status, &task.data, guard)?]))
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await;
        let done = done.inspect_err(|refusal| {
            let (who, code) = (&*actor.principal.id, refusal.code());
            tracing::info!(actor = who, task = id, line, action, code, "line action denied: {refusal}");
        })?;
        let line = written_line(&done)?;
        Ok(done.show(line))
    }
}

fn new_line(task: &ItemId, number: usize, line: NewLine, guard: Option<Guard>) -> Result<Verb> {
    let data = LineDoc { line, error: None };
    put(&line_id(task, number)?, &status("pending"), &data, Expect::Absent, guard)
}

/// The line that a change wrote.
fn written_line(done: &Done) -> Result<Line> {
    let item = done.written(super::LINES)?;
    let number = line_number(&item.id).parse().unwrap_or(0);
    Ok(show_line(number, Document::of(item)?))
}

fn line_number(id: &ItemId) -> &str {
    id.as_str().rsplit('-').next().unwrap_or("")
}

/// Refuses a task whose lines are history.
pub(super) fn still_open(task: &Document<TaskDoc>) -> Result<()> {
    match task.item.status.as_str() {
        "completed" | "cancelled" => Err(wrong_status(task, "its lines cannot change any more")),
        _ => Ok(()),
    }
}

fn wrong_status(task: &Document<TaskDoc>, message: &'static str) -> Refusal {
    let (id, status) = (task.item.id.to_string(), task.item.status.to_string());
    Refusal::WrongStatus { what: "task", id, status, message: message.into() }
}

fn merge(line: &NewLine, edit: &EditLine) -> NewLine {
    let mode = edit.mode.unwrap_or(line.mode);
    let is_same = mode == line.mode;
    NewLine {
        product: edit.product.as_ref().unwrap_or(&line.product).trim().to_owned(),
        mode,
        // What belongs to the other way of counting goes with it.
        serials: edit.serials.clone().or_else(|| line.serials.clone().filter(|_| is_same)),
        quantity: edit.quantity.or(line.quantity.filter(|_| is_same)),
        direction: edit.direction.unwrap_or(line.direction),
    }
}

/// Refuses a line that says nothing sensible, naming the field.
fn check(line: &NewLine, at: &str) -> Result<()> {
    let invalid = |field: &str, message: &str| Err(Refusal::invalid(format!("{at}{field}"), message));
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let product = &line.product;
    if product.is_empty() || product.len() > CODE_BYTES_MAX || !product.bytes().all(is_code) {
        return invalid("product", "has 1 to 64 of A-Z, a-z, 0-9 and . _ -");
    }
    match (line.mode, &line.serials, line.quantity) {
        (Mode::Quantity, Some(_), _) => invalid("serials", "a line by quantity has none"),
        (Mode::Quantity, None, None) => invalid("quantity", "is missing"),
        (Mode::Quantity, None, Some(quantity)) if (1..=QUANTITY_MAX).contains(&quantity) => Ok(()),
        (Mode::Quantity, None, Some(_)) => invalid("quantity", "must be 1 to 1,000,000,000"),
        (Mode::Serialized, _, Some(_)) => invalid("quantity", "a serialized line has as many as its serials"),
        (Mode::Serialized, None, None) => invalid("serials", "are missing"),
        (Mode::Serialized, Some(serials), None) => check_serials(serials, at),
    }
}

fn check_serials(serials: &[String], at: &str) -> Result<()> {
    if serials.is_empty() || serials.len() > SERIALS_MAX {
        return Err(Refusal::invalid(format!("{at}serials"), "must be 1 to 100"));
    }
    let mut seen = BTreeSet::new();
    for (index, serial) in serials.iter().enumerate() {
        let invalid = |message: &str| Err(Refusal::invalid(format!("{at}serials[{index}]"), message));
        let is_plain = serial.trim() == serial && !serial.chars().any(char::is_control);
        if serial.is_empty() || serial.len() > CODE_BYTES_MAX || !is_plain {
            return invalid("has 1 to 64 bytes, no control characters and no spaces around it");
        }
        if !seen.insert(serial) {
            return invalid("stands twice");
        }
    }
    Ok(())
}
