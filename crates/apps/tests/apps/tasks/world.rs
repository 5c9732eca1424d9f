//! Short words for tasks.

use tenure_apps::tasks::{Direction, Line, Mode, NewLine, NewTask, Product, Task, Tasks};
use tenure_apps::{Actor, LockState};

use crate::common::{Office, person};

/// An office with the application in it.
pub(crate) struct World {
    pub(crate) office: Office,
    pub(crate) tasks: Tasks,
    pub(crate) ana: Actor,
    pub(crate) bea: Actor,
    pub(crate) root: Actor,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::in_office(Office::new())
    }

    fn in_office(office: Office) -> Self {
        let tasks = Tasks::new(office.desk.clone());
        Self { tasks, office, ana: person("ana"), bea: person("bea"), root: person("root") }
    }

    pub(crate) fn restart(self) -> Self {
        let Self { office, tasks, .. } = self;
        drop(tasks);
        Self::in_office(office.restart())
    }

    pub(crate) async fn draft(&self, lines: Vec<NewLine>) -> String {
        let new = NewTask { title: "Delivery".to_owned(), lines };
        self.tasks.create(&self.ana, new).await.expect("is made").value.id
    }

    /// A task that can be processed.
    pub(crate) async fn ready(&self, lines: Vec<NewLine>) -> String {
        let id = self.draft(lines).await;
        self.tasks.ready(&self.ana, &id).await.expect("becomes ready");
        id
    }

    /// A task that Ana processes.
    pub(crate) async fn processing(&self, lines: Vec<NewLine>) -> String {
        let id = self.ready(lines).await;
        self.tasks.process(&self.ana, &id).await.expect("is free");
        id
    }

    pub(crate) fn task(&self, id: &str) -> Task {
        self.tasks.get(&self.ana, id).expect("is there")
    }

    /// Who has it, by id.
    pub(crate) fn holder(&self, id: &str) -> Option<String> {
        let lock = self.task(id).lock;
        assert_eq!(lock.state == LockState::Locked, lock.locked_by.is_some());
        lock.locked_by.map(|person| person.id)
    }

    /// The lines' statuses, in order.
    pub(crate) fn lines(&self, id: &str) -> Vec<String> {
        self.task(id).lines.iter().map(|line: &Line| line.status.to_string()).collect()
    }

    pub(crate) async fn stock(&self) -> Vec<Product> {
        self.tasks.inventory(None, None).await.expect("is read").products
    }

    /// How much there is of a product.
    pub(crate) async fn quantity(&self, product: &str) -> u64 {
        let stock = self.stock().await;
        stock.iter().find(|row| row.product == product).map_or(0, |row| row.quantity)
    }
}

pub(crate) fn quantity(direction: Direction, product: &str, quantity: u64) -> NewLine {
    let product = product.to_owned();
    NewLine { product, mode: Mode::Quantity, serials: None, quantity: Some(quantity), direction }
}

pub(crate) fn serials(direction: Direction, product: &str, serials: &[&str]) -> NewLine {
    let serials = Some(serials.iter().map(|serial| (*serial).to_owned()).collect());
    NewLine { product: product.to_owned(), mode: Mode::Serialized, serials, quantity: None, direction }
}

/// So many pieces come in.
pub(crate) fn bring(product: &str, count: u64) -> NewLine {
    quantity(Direction::In, product, count)
}

/// So many pieces go out.
pub(crate) fn take(product: &str, count: u64) -> NewLine {
    quantity(Direction::Out, product, count)
}
