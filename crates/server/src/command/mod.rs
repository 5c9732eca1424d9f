//! One way from what a caller wrote to what the engine does, and back: a route, a step of a batch and a
//! message on a socket are read by the same structs ([`ask`]) and answered by the same function
//! ([`answer`]). [`parse`] reads the JSON form of a command, `{"op": "acquire", …}`.

mod answer;
mod ask;
mod op;
mod parse;

pub(crate) use answer::{Location, Rendered};
pub(crate) use ask::{
    AcquireBody, AddItemBody, Asked, CompleteBody, DeleteItemBody, ForceClaimBody, ForceReleaseBody,
    HeartbeatBody, NoBody, NudgeBody, PutItemBody, Question, Stated, create_collection, no_body,
};
pub(crate) use op::Op;
pub(crate) use parse::{CommandSchema, parse};
