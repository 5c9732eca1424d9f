//! What applying a line does to the stock: planned from what is there, written over the versions that were
//! read, so that a plan that somebody overtook is refused and made anew.

use tenure_core::{Expect, Guard, Verb};

use super::model::{LineDoc, ProductDoc, SerialDoc};
use super::{Direction, Failure, Mode, NewLine, PRODUCTS, SERIALS, Tasks, Why, status};
use crate::{Document, Result, put};

impl Tasks {
    /// The writes that apply the line, each under the guard; or why it cannot be applied.
    pub(super) fn effect(
        &self,
        line: &Document<LineDoc>,
        guard: &Guard,
    ) -> Result<std::result::Result<Vec<Verb>, Failure>> {
        let said = &line.data.line;
        let product = PRODUCTS.id(&said.product)?;
        let found: Option<Document<ProductDoc>> = self.desk.find(&self.collection, &product)?;
        let (before, expect) = match &found {
            Some(found) if found.data.mode != said.mode => return Ok(Err(wrong_mode(said))),
            Some(found) => (found.data.quantity, Expect::Version(found.item.version)),
            // What comes in is known from then on.
            None if said.direction == Direction::In => (0, Expect::Absent),
            None => return Ok(Err(unknown_product(said))),
        };
        let count = match &said.serials {
            Some(serials) => serials.len() as u64,
            None => said.quantity.unwrap_or(0),
        };
        let mut verbs = match self.move_serials(line, guard)? {
            Ok(verbs) => verbs,
            Err(failure) => return Ok(Err(failure)),
        };
        let quantity = match said.direction {
            Direction::In => before.saturating_add(count),
            Direction::Out if before >= count => before - count,
            Direction::Out => return Ok(Err(not_enough(said, before, count))),
        };
        let data = ProductDoc { mode: said.mode, quantity };
        verbs.push(put(&product, &status("stock"), &data, expect, Some(guard.clone()))?);
        Ok(Ok(verbs))
    }

    fn move_serials(
        &self,
        line: &Document<LineDoc>,
        guard: &Guard,
    ) -> Result<std::result::Result<Vec<Verb>, Failure>> {
        let said = &line.data.line;
        let mut verbs = Vec::new();
        for serial in said.serials.iter().flatten() {
            let item = SERIALS.id(&format!("{}/{serial}", said.product))?;
            let found: Option<Document<SerialDoc>> = self.desk.find(&self.collection, &item)?;
            match (said.direction, found) {
                (Direction::In, None) => {
                    let data = SerialDoc { from: line.item.id.to_string() };
                    verbs.push(put(&item, &status("stock"), &data, Expect::Absent, Some(guard.clone()))?);
                }
                (Direction::Out, Some(found)) => {
                    let (expect, guard) = (Expect::Version(found.item.version), Some(guard.clone()));
                    verbs.push(Verb::DeleteItem { item, expect, guard });
                }
                (Direction::In, Some(_)) => {
                    let message = format!("{serial} of {} is in stock already", said.product);
                    return Ok(Err(Failure { reason: Why::SerialAlreadyIn, message }));
                }
                (Direction::Out, None) => {
                    let message = format!("{serial} of {} is not in stock", said.product);
                    return Ok(Err(Failure { reason: Why::SerialNotInStock, message }));
                }
            }
        }
        Ok(Ok(verbs))
    }
}

fn unknown_product(line: &NewLine) -> Failure {
    let message = format!("there was never any {} in stock", line.product);
    Failure { reason: Why::UnknownProduct, message }
}

fn wrong_mode(line: &NewLine) -> Failure {
    let how = match line.mode {
        Mode::Serialized => "by quantity, not by serial numbers",
        Mode::Quantity => "by serial numbers, not by quantity",
    };
    Failure { reason: Why::WrongMode, message: format!("{} is counted {how}", line.product) }
}

fn not_enough(line: &NewLine, there: u64, needed: u64) -> Failure {
    let message = format!("{there} of {} are in stock, {needed} are needed", line.product);
    Failure { reason: Why::NotEnoughStock, message }
}
