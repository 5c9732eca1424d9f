//! What lines do to the stock, and why some cannot be applied.

use tenure_apps::tasks::{Direction, NewLine, Why};

use super::world::{World, bring, serials, take};

async fn run(w: &World, lines: Vec<NewLine>) -> Vec<Option<(Why, String)>> {
    let id = w.processing(lines).await;
    let task = w.tasks.finalize(&w.ana, &id).await.expect("goes on").value;
    let errors = task.lines.into_iter().map(|line| {
        assert_eq!(line.status.as_str(), if line.error.is_some() { "error" } else { "applied" });
        line.error.map(|error| (error.reason, error.message))
    });
    errors.collect()
}

fn why(reason: Why, message: &str) -> (Why, String) {
    (reason, message.to_owned())
}

/// T20: by quantity, in and out.
#[tokio::test]
async fn t20_quantities_come_and_go() {
    let w = World::new();
    assert_eq!(run(&w, vec![bring("bolt", 10), take("bolt", 3)]).await, [None, None]);
    assert_eq!(w.quantity("bolt").await, 7);
    let errors = run(&w, vec![take("bolt", 8), take("screw", 1), take("bolt", 7)]).await;
    let expected = [
        Some(why(Why::NotEnoughStock, "7 of bolt are in stock, 8 are needed")),
        Some(why(Why::UnknownProduct, "there was never any screw in stock")),
        None,
    ];
    assert_eq!(errors, expected);
    assert_eq!(w.quantity("bolt").await, 0);
    let errors = run(&w, vec![take("bolt", 1)]).await;
    assert_eq!(errors, [Some(why(Why::NotEnoughStock, "0 of bolt are in stock, 1 are needed"))]);
}

/// T20: serial numbers are in stock once, and go out only if they are there; a line is whole or nothing.
#[tokio::test]
async fn t20_serial_numbers_come_and_go() {
    let w = World::new();
    let (bring, take) = (
        |names: &[&str]| serials(Direction::In, "router", names),
        |names: &[&str]| serials(Direction::Out, "router", names),
    );
    assert_eq!(run(&w, vec![bring(&["A", "B"]), bring(&["C"])]).await, [None, None]);
    let errors = run(&w, vec![bring(&["D", "A"]), take(&["B", "Z"]), take(&["C"])]).await;
    let expected = [
        Some(why(Why::SerialAlreadyIn, "A of router is in stock already")),
        Some(why(Why::SerialNotInStock, "Z of router is not in stock")),
        None,
    ];
    assert_eq!(errors, expected);
    let stock = w.stock().await;
    assert_eq!(stock[0].quantity, 2);
    assert_eq!(stock[0].serials.as_deref(), Some(&["A".to_owned(), "B".to_owned()][..]));
    assert_eq!(run(&w, vec![bring(&["C"])]).await, [None], "what went out can come back");
}

/// T20: a product is counted one way.
#[tokio::test]
async fn t20_a_product_is_counted_one_way() {
    let w = World::new();
    run(&w, vec![bring("cable", 1), serials(Direction::In, "router", &["A"])]).await;
    let errors = run(&w, vec![serials(Direction::In, "cable", &["A"]), take("router", 1)]).await;
    let expected = [
        Some(why(Why::WrongMode, "cable is counted by quantity, not by serial numbers")),
        Some(why(Why::WrongMode, "router is counted by serial numbers, not by quantity")),
    ];
    assert_eq!(errors, expected);
}

/// Products whose codes begin alike keep their own serial numbers, and the stock has pages.
#[tokio::test]
async fn the_stock_is_listed_by_product() {
    let w = World::new();
    let line = |product: &str, name: &str| serials(Direction::In, product, &[name]);
    run(&w, vec![line("a", "1"), line("a-b", "2"), line("a.b", "3"), line("aa", "4"), bring("b", 5)]).await;
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = w.tasks.inventory(after, Some(2)).await.expect("reads");
        found.extend(page.products.into_iter().map(|row| (row.product, row.quantity, row.serials)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let one = |product: &str, name: &str| (product.to_owned(), 1, Some(vec![name.to_owned()]));
    let expected =
        [one("a", "1"), one("a-b", "2"), one("a.b", "3"), one("aa", "4"), ("b".to_owned(), 5, None)];
    assert_eq!(found, expected);
}

/// A shelf that many take from at once never goes below nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t20_many_tasks_share_one_shelf() {
    let w = World::new();
    run(&w, vec![bring("bolt", 15)]).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(w.processing(vec![take("bolt", 1), bring("nut", 2)]).await);
    }
    let running: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let (tasks, ana) = (w.tasks.clone(), w.ana.clone());
            tokio::spawn(async move { tasks.finalize(&ana, &id).await.expect("goes on").value.status })
        })
        .collect();
    let mut completed = 0;
    for status in running {
        completed += u64::from(status.await.expect("ends").as_str() == "completed");
    }
    assert_eq!((completed, w.quantity("bolt").await, w.quantity("nut").await), (15, 0, 40));
}
