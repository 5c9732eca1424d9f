//! Tasks to try things on: a dozen, in every state, and the stock that the finished ones left.

use super::{Direction, Mode, NewLine, NewTask, Tasks};
use crate::demo::People;
use crate::{Actor, Desk, Result};

/// How far a task of the demonstration has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Draft,
    Ready,
    /// The first or the second editor processes it.
    Locked(usize),
    /// Somebody began and left.
    Left,
    Finalized,
    Cancelled,
}

/// Loads them, unless there are tasks already.
pub(crate) async fn load_demo(desk: &Desk, people: &People) -> Result<()> {
    let tasks = Tasks::new(desk.clone());
    let [ana, bruno] = &people.editors;
    if !tasks.list(ana, super::TaskQuery { limit: Some(1), ..Default::default() }).await?.tasks.is_empty() {
        return Ok(());
    }
    let (come, go) = (Direction::In, Direction::Out);
    let plan: Vec<(&str, Vec<NewLine>, Until)> = vec![
        ("Opening stock", vec![many("cable-2m", 120, come), many("cable-5m", 60, come)], Until::Finalized),
        (
            "Routers from the factory",
            vec![pieces("router", &["RT-1001", "RT-1002", "RT-1003", "RT-1004"], come)],
            Until::Finalized,
        ),
        (
            "Office Sevilla",
            vec![many("cable-2m", 20, go), pieces("router", &["RT-1001"], go)],
            Until::Finalized,
        ),
        // One line of each cannot be applied, and says why.
        (
            "Office Bilbao",
            vec![many("cable-5m", 10, go), many("cable-5m", 400, go), many("switch-8", 2, go)],
            Until::Finalized,
        ),
        (
            "Returned routers",
            vec![pieces("router", &["RT-1001"], come), pieces("router", &["RT-1002"], come)],
            Until::Finalized,
        ),
        ("Delivery 1042", vec![many("cable-2m", 40, come), many("switch-8", 6, come)], Until::Ready),
        ("Delivery 1043", vec![pieces("camera", &["CM-1", "CM-2", "CM-3"], come)], Until::Ready),
        ("Office Valencia", vec![pieces("router", &["RT-1003"], go), many("cable-2m", 8, go)], Until::Ready),
        ("Monthly count", vec![many("cable-5m", 3, come)], Until::Locked(1)),
        ("Urgent: trade fair", vec![many("cable-2m", 30, go)], Until::Left),
        ("Order for spring", vec![many("cable-10m", 25, come)], Until::Draft),
        ("Wrong address", vec![many("cable-2m", 1, go)], Until::Cancelled),
    ];
    for (title, lines, until) in plan {
        let id = tasks.create(ana, NewTask { title: title.to_owned(), lines }).await?.value.id;
        bring_to(&tasks, [ana, bruno], &id, until).await?;
    }
    Ok(())
}

async fn bring_to(tasks: &Tasks, editors: [&Actor; 2], id: &str, until: Until) -> Result<()> {
    let [ana, _] = editors;
    if until == Until::Draft {
        return Ok(());
    }
    tasks.ready(ana, id).await?;
    match until {
        Until::Draft | Until::Ready => {}
        Until::Locked(who) => drop(tasks.process(editors[who], id).await?),
        Until::Left => {
            tasks.process(ana, id).await?;
            tasks.validate_line(ana, id, "1").await?;
            tasks.leave(ana, id).await?;
        }
        Until::Finalized => {
            tasks.process(ana, id).await?;
            tasks.finalize(ana, id).await?;
        }
        Until::Cancelled => drop(tasks.cancel(ana, id).await?),
    }
    Ok(())
}

fn many(product: &str, quantity: u64, direction: Direction) -> NewLine {
    let product = product.to_owned();
    NewLine { product, mode: Mode::Quantity, serials: None, quantity: Some(quantity), direction }
}

fn pieces(product: &str, serials: &[&str], direction: Direction) -> NewLine {
    let serials = Some(serials.iter().map(|serial| (*serial).to_owned()).collect());
    NewLine { product: product.to_owned(), mode: Mode::Serialized, serials, quantity: None, direction }
}
