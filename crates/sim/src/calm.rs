//! The beginning and the end of a seed, without chance: what is there to claim, and what must be true
//! once the faults have stopped (I18).

use tenure_core::command::{Acquire, How, PutItem};
use tenure_core::{CollectionKey, Command, Expect, ItemId, ItemWrite, Policy, Principal, Reply, Verb};

use crate::auditor::Violation;
use crate::driver::Driver;
use crate::machine::Machine;

impl<M: Machine> Driver<M> {
    /// The first turns: policies, collections, items.
    pub(crate) fn set_up(&mut self) -> Result<(), Violation> {
        let admin = principal("h0", "Holder 0");
        let ask = |collection: CollectionKey, verb| Command { collection, actor: admin.clone(), verb };
        let mut commands = Vec::new();
        for (kind, policy) in self.world.policies.clone() {
            commands.push(ask(CollectionKey::policies(), Verb::SetPolicy { kind, policy }));
        }
        for place in self.world.places.clone() {
            commands.push(ask(place.key.clone(), Verb::CreateCollection));
            for item in place.items {
                let write = ItemWrite { item, status: None, data: None };
                let put = PutItem { write, expect: Expect::Absent, guard: None };
                commands.push(ask(place.key.clone(), Verb::PutItem(put)));
            }
        }
        for command in commands {
            let request = self.send(None, command, None);
            self.deliver(request);
        }
        self.quiet = true;
        self.drain()?;
        (self.quiet, self.calm_turns) = (false, 0);
        Ok(())
    }

    /// Faults stop, clients fall silent; everything that is promised for then must come true.
    pub(crate) fn calm_down(&mut self) -> Result<(), Violation> {
        self.quiet = true;
        self.clear_agenda();
        self.history.add(self.now_ms, format_args!("calm"));
        self.restart()?;
        if let Some(server) = &mut self.server {
            server.busy_until_ms = self.now_ms;
        }
        self.drain()?;
        self.auditor.all_over()?;
        self.probe()?;
        // Twice: one who has to start anew does so the second time.
        self.watch(false)?;
        self.watch(false)?;
        self.finish()?;
        // Once more through a stop in good order.
        self.drain()?;
        self.stop_and_start()?;
        self.drain()?;
        self.watch(false)?;
        self.watch(false)?;
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        match &self.server {
            Some(server) => self.auditor.finish(&*server.reader),
            None => Err(Violation::new("I18", "the server is down although nothing is wrong".to_owned())),
        }
    }

    /// Lets the server run until it has nothing to do by itself.
    fn drain(&mut self) -> Result<(), Violation> {
        const TURNS_MAX: u32 = 50_000;
        for _ in 0..TURNS_MAX {
            let due_ms = self.server.as_ref().and_then(|server| server.due_ms(self.now_ms, self.skew_ms));
            let Some(due_ms) = due_ms else { return Ok(()) };
            self.now_ms = self.now_ms.max(due_ms);
            self.turn()?;
        }
        Err(Violation::new("I18", format!("the server finds no rest in {TURNS_MAX} turns")))
    }

    /// Everything that can be claimed is granted at once, each item to somebody new.
    fn probe(&mut self) -> Result<(), Violation> {
        // Longer than any lock delay of the workload.
        self.now_ms += 5_000;
        let mut probes = Vec::new();
        for place in self.world.places.clone() {
            for item in &place.items {
                if !self.is_claimable(&place.key, item) {
                    continue;
                }
                let actor = principal(&format!("probe-{item}"), "Probe");
                let acquire = Acquire { items: vec![item.clone()], ..Acquire::default() };
                let command = Command { collection: place.key.clone(), actor, verb: Verb::Acquire(acquire) };
                let request = self.send(None, command, None);
                self.deliver(request);
                probes.push((place.key.clone(), item.clone(), request));
            }
        }
        let before = self.now_ms;
        self.probed.clear();
        self.turn()?;
        for (key, item, request) in probes {
            let granted = self
                .probed
                .get(&request)
                .is_some_and(|answer| matches!(answer, Ok(Reply::Acquired { how: How::New, .. })));
            if !granted {
                let detail = format!("{key}: item {item} is free and was not granted at {before}");
                return Err(Violation::new("I18", detail));
            }
        }
        Ok(())
    }

    fn is_claimable(&self, key: &CollectionKey, item: &ItemId) -> bool {
        let Some(server) = &self.server else { return false };
        let set = server.reader.policy(key.kind()).ok().flatten();
        let Some(policy) = set.or_else(|| Policy::preset(key.kind())) else { return false };
        let row = server.reader.item(key, item).ok().flatten();
        row.is_some_and(|row| policy.claimable.contains(&row.status))
    }
}

fn principal(id: &str, name: &str) -> Principal {
    Principal::new(id, name).expect("a plain name")
}
