//! The demonstration.

use std::collections::BTreeMap;

use tenure_apps::demo::People;
use tenure_apps::tasks::{TaskQuery, Tasks};

use crate::common::{Office, person};

/// A dozen tasks, in every state, with stock; loading it again adds nothing.
#[tokio::test]
async fn the_demonstration_has_a_dozen_tasks_in_every_state() {
    let office = Office::new();
    let people = People { admin: person("root"), editors: [person("ana"), person("bruno")] };
    let tasks = Tasks::new(office.desk.clone());
    for _ in 0..2 {
        office.load_demo(&people).await;
        let list = tasks.list(&person("ana"), TaskQuery::default()).await.expect("reads").tasks;
        assert_eq!(list.len(), 12);
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for task in &list {
            *count.entry(task.status.to_string()).or_default() += 1;
        }
        let count: Vec<_> = count.iter().map(|(status, count)| (&**status, *count)).collect();
        let expected = [
            ("cancelled", 1),
            ("completed", 3),
            ("draft", 1),
            ("partially_completed", 2),
            ("processing", 2),
            ("ready", 3),
        ];
        assert_eq!(count, expected);
        assert_eq!(list.iter().filter(|task| task.lock.locked_by.is_some()).count(), 1);
        let stock = tasks.inventory(None, None).await.expect("reads").products;
        let stock: Vec<_> = stock.iter().map(|row| (&*row.product, row.quantity)).collect();
        assert_eq!(stock, [("cable-2m", 100), ("cable-5m", 50), ("router", 4)]);
    }
}
