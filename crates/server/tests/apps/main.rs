//! The applications' routes, through the router in this process. Names begin with the id of the requirement
//! that they prove.

#[path = "../rest/faulty.rs"]
#[expect(dead_code, reason = "the harness is shared with the other routes' tests")]
mod faulty;
#[path = "../rest/server.rs"]
#[expect(dead_code, reason = "the harness is shared with the other routes' tests")]
mod server;

mod access;
mod jobs;
mod labels;
mod payments;
mod raffle;
mod runner;
mod tasks;
