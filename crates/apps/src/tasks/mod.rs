//! Tasks: back-office staff process pending inventory tasks, one editor at a time.
//!
//! ```text
//!  create ─► draft ─ ready ─► ready ─ process ─► processing ─ finalize ─► completed
//!                                                   ▲   │                     (every line applied)
//!                                             process   └ finalize ─► partially_completed
//!                                                   └──────────────────────┘  (some line failed)
//!  cancel, from any of these but completed ─► cancelled
//! ```
//!
//! A task, its lines, the products and their serial numbers are items of one collection, so that applying
//! a line changes the stock in the same commit. Every change of a line also writes its task: the task's
//! version counts them all, and one expected version guards the whole.
//!
//! Which statuses can be claimed is the policy of the kind `task`, and who holds is the engine's to say.

mod demo;
mod edit;
mod finalize;
mod locks;
mod model;
mod read;
mod stock;

use tenure_core::{Claim, CollectionKey, Guard, ItemId};

pub(crate) use demo::load_demo;
pub use model::{
    Beat, Direction, EditLine, Failure, Inventory, Line, Mode, NewLine, NewTask, Product, Task, TaskPage,
    TaskQuery, TaskStatus, Why,
};

use crate::desk::status;
use crate::{Desk, Document, Family, Refusal, Result};
use model::{LineDoc, TaskDoc};

/// Where tasks and stock live.
pub const COLLECTION: &str = "task/inventory";

const TASKS: Family = Family("task-");
const LINES: Family = Family("line-");
const PRODUCTS: Family = Family("stock-");
const SERIALS: Family = Family("serial-");

/// Lines of one task: they are shown and finalised together.
pub const LINES_MAX: usize = 100;
/// Serial numbers of one line: they are applied in one commit.
pub const SERIALS_MAX: usize = 100;
/// One line's quantity: sums of a million such lines still fit a JavaScript integer.
pub const QUANTITY_MAX: u64 = 1_000_000_000;
/// A title is a line on a page.
pub const TITLE_BYTES_MAX: usize = 200;
/// A product's code or a serial number: both stand in an item's id.
pub const CODE_BYTES_MAX: usize = 64;
/// Tasks on a page when nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Tasks on a page: each comes with its lines.
pub const PAGE_MAX: usize = 200;
/// Serial numbers that one product of the inventory shows.
pub const SERIALS_SHOWN_MAX: usize = 1_000;

/// The application.
#[derive(Clone, Debug)]
pub struct Tasks {
    desk: Desk,
    collection: CollectionKey,
}

impl Tasks {
    /// On a desk.
    pub fn new(desk: Desk) -> Self {
        let collection = CollectionKey::new(COLLECTION).expect("the collection's key is valid");
        Self { desk, collection }
    }

    /// A task as it is.
    fn task(&self, id: &str) -> Result<Document<TaskDoc>> {
        self.desk.find(&self.collection, &item_of(id)?)?.ok_or_else(|| unknown(id))
    }

    /// The same with the claim that holds it now.
    fn held(&self, id: &str) -> Result<(Document<TaskDoc>, Option<Claim>)> {
        let found = self.desk.find_held(&self.collection, &item_of(id)?, self.desk.now_ms())?;
        found.ok_or_else(|| unknown(id))
    }

    /// A line of a task as it is.
    fn line(&self, task: &Document<TaskDoc>, id: &str) -> Result<Document<LineDoc>> {
        let unknown = || Refusal::not_found("line", id);
        let number =
            id.parse::<usize>().ok().filter(|number| number.to_string() == id).ok_or_else(unknown)?;
        self.desk.find(&self.collection, &line_id(&task.item.id, number)?)?.ok_or_else(unknown)
    }
}

/// Everything in the collection is the application's.
pub(crate) fn is_own(collection: &CollectionKey) -> bool {
    collection.as_str() == COLLECTION
}

/// Lines and stock are items of the collection too, and are no tasks.
fn item_of(id: &str) -> Result<ItemId> {
    ItemId::new(id).ok().filter(|_| TASKS.has(id)).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Refusal {
    Refusal::not_found("task", id)
}

fn line_id(task: &ItemId, number: usize) -> Result<ItemId> {
    LINES.id(&format!("{}{number}", line_ids(task)))
}

/// How the names of a task's lines begin.
fn line_ids(task: &ItemId) -> String {
    format!("{task}-")
}

/// Only while the actor holds the task.
fn holds(task: &Document<TaskDoc>) -> Guard {
    Guard::Holds { item: task.item.id.clone(), token: None }
}
