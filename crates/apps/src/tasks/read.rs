//! Tasks and stock as they are shown.

use std::sync::Arc;

use tenure_core::{Claim, Item};

use super::model::{LineDoc, ProductDoc, TaskDoc};
use super::{
    Inventory, LINES, Line, NewLine, PAGE_DEFAULT, PAGE_MAX, PRODUCTS, Product, SERIALS, SERIALS_SHOWN_MAX,
    TASKS, Task, TaskPage, TaskQuery, Tasks, line_ids,
};
use crate::desk::status;
use crate::family::page_size;
use crate::limits::ATTEMPTS_MAX;
use crate::{Actor, Document, Listed, Lock, LockState, Refusal, Result, Time};

impl Tasks {
    /// One task, with its lines and its lock.
    pub fn get(&self, actor: &Actor, id: &str) -> Result<Task> {
        self.whole(actor, self.task(id)?)
    }

    /// A page of tasks, oldest first.
    pub async fn list(&self, actor: &Actor, query: TaskQuery) -> Result<TaskPage> {
        let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let (tasks, actor) = (self.clone(), actor.clone());
        self.desk
            .read(move |desk| {
                let keep = |item: Arc<Item>, claim: Option<&Claim>| {
                    let is_wanted = |is_locked| query.locked.is_none_or(|locked| locked == is_locked);
                    if !is_wanted(claim.is_some()) {
                        return Ok(None);
                    }
                    // With its lines it is as it is by now.
                    let task = tasks.whole(&actor, Document::of(item)?)?;
                    Ok(Some(task).filter(|task| is_wanted(task.lock.state == LockState::Locked)))
                };
                let wanted = query.status.map(|wanted| status(wanted.as_str()));
                let which = (wanted.as_ref(), query.after.as_deref(), limit);
                let Listed { rows, next } = TASKS.page_held(desk, &tasks.collection, which, keep)?;
                Ok(TaskPage { tasks: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// A page of the stock, by product.
    pub async fn inventory(&self, after: Option<String>, limit: Option<usize>) -> Result<Inventory> {
        let limit = page_size(limit, PAGE_DEFAULT, PAGE_MAX)?;
        let tasks = self.clone();
        self.desk
            .read(move |desk| {
                let after = after.map(|code| PRODUCTS.id(&code)).transpose()?;
                let which = (None, after.as_ref().map(tenure_core::ItemId::as_str), limit);
                let keep = |item: Arc<Item>| tasks.product(&Document::of(item)?).map(Some);
                let Listed { rows, next } = PRODUCTS.page(desk, &tasks.collection, which, keep)?;
                let next = next.map(|id| id[PRODUCTS.0.len()..].to_owned());
                Ok(Inventory { products: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    fn product(&self, document: &Document<ProductDoc>) -> Result<Product> {
        let Document { item, data } = document;
        let code = &item.id.as_str()[PRODUCTS.0.len()..];
        let serials = match data.mode {
            super::Mode::Quantity => None,
            super::Mode::Serialized => {
                let beginning = format!("{code}/");
                let skip = SERIALS.0.len() + beginning.len();
                let keep = |item: Arc<Item>| Ok(Some(item.id.as_str()[skip..].to_owned()));
                let which = (None, None, SERIALS_SHOWN_MAX);
                Some(SERIALS.page_of(&self.desk, &self.collection, &beginning, which, keep)?.rows)
            }
        };
        Ok(Product {
            product: code.to_owned(),
            mode: data.mode,
            quantity: data.quantity,
            serials,
            version: item.version,
            updated_at: Time(item.updated_at_ms),
            updated_by: item.updated_by.to_string(),
        })
    }

    /// The task with its lines and its lock.
    pub(super) fn whole(&self, actor: &Actor, mut task: Document<TaskDoc>) -> Result<Task> {
        // All of one moment: every change of a line also changes its task, so the task's version tells whether
        // something changed while the lines were read.
        for _ in 0..ATTEMPTS_MAX {
            let lines = self.lines(&task)?;
            let (now, claim) = self.held(task.item.id.as_str())?;
            if lines.len() == task.data.lines && now.item.version == task.item.version {
                return Ok(self.show(actor, &now, lines, claim.as_ref()));
            }
            task = now;
        }
        tracing::error!(task = task.item.id.as_str(), "a task changed each time it was read");
        Err(Refusal::Broken)
    }

    /// Its lines in order, asked for at once.
    fn lines(&self, task: &Document<TaskDoc>) -> Result<Vec<Line>> {
        if task.data.lines == 0 {
            return Ok(Vec::new());
        }
        let beginning = line_ids(&task.item.id);
        let skip = LINES.0.len() + beginning.len();
        let keep = |item: Arc<Item>| {
            let number: usize = item.id.as_str()[skip..].parse().map_err(|_| Refusal::Broken)?;
            Ok(Some((number, show_line(number, Document::of(item)?))))
        };
        let which = (None, None, task.data.lines);
        let mut lines = LINES.page_of(&self.desk, &self.collection, &beginning, which, keep)?.rows;
        // By their names the tenth would come before the second.
        lines.sort_by_key(|(number, _)| *number);
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    fn show(&self, actor: &Actor, task: &Document<TaskDoc>, lines: Vec<Line>, claim: Option<&Claim>) -> Task {
        let now_ms = self.desk.now_ms();
        Task {
            id: task.item.id.to_string(),
            title: task.data.title.clone(),
            status: task.item.status.clone(),
            lines,
            lock: Lock::of(claim, actor, now_ms),
            version: task.item.version,
            updated_at: Time(task.item.updated_at_ms),
            server_time: Time(now_ms),
        }
    }
}

pub(super) fn show_line(number: usize, Document { item, data }: Document<LineDoc>) -> Line {
    let LineDoc { line: NewLine { product, mode, serials, quantity, direction }, error } = data;
    let (id, status) = (number.to_string(), item.status.clone());
    Line { id, product, mode, serials, quantity, direction, status, error }
}
