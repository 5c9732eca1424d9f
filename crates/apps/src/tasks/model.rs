//! What is kept, what is asked and what is answered.

use serde::{Deserialize, Serialize};
use tenure_core::Status;
use utoipa::ToSchema;

use crate::{Lock, Time};

/// A task's document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskDoc {
    pub(super) title: String,
    /// How many lines it has; their numbers are 1 to this.
    pub(super) lines: usize,
    /// The claim under which it was last finalised, and who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finalized: Option<Finalized>,
}

/// Who finalised, under which claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finalized {
    pub(super) claim: u64,
    pub(super) by: String,
}

/// A line's document. Its status is the item's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineDoc {
    #[serde(flatten)]
    pub(super) line: NewLine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
}

/// A product's document: how much of it there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProductDoc {
    pub(super) mode: Mode,
    pub(super) quantity: u64,
}

/// A serial number that is in stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SerialDoc {
    /// The line that brought it in.
    pub(super) from: String,
}

/// How a product is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each piece has a serial number.
    Serialized,
    /// By quantity.
    Quantity,
}

/// Which way a line moves stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Into stock.
    In,
    /// Out of stock.
    Out,
}

/// Make a task.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"title": "Delivery 1042", "lines": [
    {"product": "cable-2m", "mode": "quantity", "quantity": 40, "direction": "in"},
    {"product": "router", "mode": "serialized", "serials": ["SN-1", "SN-2"], "direction": "in"},
]}))]
pub struct NewTask {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub title: String,
    /// Its first lines.
    #[serde(default, deserialize_with = "tenure_core::object::objects")]
    #[schema(required = false, max_items = 100)]
    pub lines: Vec<NewLine>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"product": "cable-2m", "mode": "quantity", "quantity": 40, "direction": "in"}))]
pub struct NewLine {
    /// The product's code.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "cable-2m")]
    pub product: String,
    /// How it is counted.
    pub mode: Mode,
    /// The serial numbers, where it is serialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 100)]
    pub serials: Option<Vec<String>>,
    /// How many, where it goes by quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub quantity: Option<u64>,
    /// Into stock or out of it.
    pub direction: Direction,
}

/// Change a line. What is absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"quantity": 38}))]
pub struct EditLine {
    /// The product's code.
    pub product: Option<String>,
    /// How it is counted.
    pub mode: Option<Mode>,
    /// The serial numbers.
    pub serials: Option<Vec<String>>,
    /// How many.
    pub quantity: Option<u64>,
    /// Into stock or out of it.
    pub direction: Option<Direction>,
}

/// Why a line could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LineError)]
pub struct Failure {
    /// The reason, for a program.
    pub reason: Why,
    /// The reason, for a person.
    #[schema(example = "3 of cable-2m are in stock, 5 are needed")]
    pub message: String,
}

/// The reasons for which a line cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LineErrorReason)]
pub enum Why {
    /// Nothing of it was ever brought in.
    UnknownProduct,
    /// The product is counted otherwise.
    WrongMode,
    /// A serial number is in stock already.
    SerialAlreadyIn,
    /// A serial number is not in stock.
    SerialNotInStock,
    /// There is less than the line takes out.
    NotEnoughStock,
}

/// A line as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Line {
    /// Its number in the task.
    #[schema(example = "1")]
    pub id: String,
    /// The product's code.
    #[schema(example = "cable-2m")]
    pub product: String,
    /// How it is counted.
    pub mode: Mode,
    /// The serial numbers, where it is serialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serials: Option<Vec<String>>,
    /// How many, where it goes by quantity.
    #[schema(example = 5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<u64>,
    /// Into stock or out of it.
    pub direction: Direction,
    /// `pending`, `validated`, `applied` or `error`.
    #[schema(value_type = String, example = "pending")]
    pub status: Status,
    /// Why it could not be applied, in status `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A task as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Task {
    /// Its id.
    #[schema(example = "task-01kdzvq2me0x7f3")]
    pub id: String,
    /// What people call it.
    #[schema(example = "Delivery 1042")]
    pub title: String,
    /// `draft`, `ready`, `processing`, `partially_completed`, `completed` or `cancelled`.
    #[schema(value_type = String, example = "ready")]
    pub status: Status,
    /// Its lines, in order.
    pub lines: Vec<Line>,
    /// Who processes it.
    pub lock: Lock,
    /// Counts its changes, those of its lines included.
    #[schema(example = 3)]
    pub version: u64,
    /// When it or a line last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Being written.
    Draft,
    /// To be processed.
    Ready,
    /// Somebody has begun.
    Processing,
    /// Finalised, and some line failed.
    PartiallyCompleted,
    /// Every line is applied.
    Completed,
    /// Given up.
    Cancelled,
}

impl TaskStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Ready => "ready",
            Self::Processing => "processing",
            Self::PartiallyCompleted => "partially_completed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskQuery {
    /// Only of this status.
    pub status: Option<TaskStatus>,
    /// Only locked, or only free ones.
    pub locked: Option<bool>,
    /// Only after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// A page of tasks, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Tasks)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// What a heartbeat did.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TaskHeartbeat)]
pub struct Beat {
    /// The deadline moved.
    pub renewed: bool,
    /// Why it did not: `idle`, `max_hold` or `fixed_phase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "idle")]
    pub reason: Option<tenure_core::command::NotRenewed>,
    /// The lock as it is now.
    pub lock: Lock,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// A product in stock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Product {
    /// Its code.
    #[schema(example = "router")]
    pub product: String,
    /// How it is counted.
    pub mode: Mode,
    /// How many there are.
    #[schema(example = 12)]
    pub quantity: u64,
    /// The serial numbers that are in stock; the first thousand of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serials: Option<Vec<String>>,
    /// Counts its changes.
    #[schema(example = 5)]
    pub version: u64,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// Who changed it, by id.
    #[schema(example = "u-7")]
    pub updated_by: String,
}

/// A page of the stock, by product.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Inventory {
    /// The products.
    pub products: Vec<Product>,
    /// Where the next page begins; `null` on the last one.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}
