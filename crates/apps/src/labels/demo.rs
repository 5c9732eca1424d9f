//! A project of drawn images, with annotations by the people of the demonstration.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

use super::{EditImage, Geometry, ImageAt, Labels, NewAnnotation, NewProject};
use crate::demo::People;
use crate::desk::status;
use crate::{Actor, Refusal, Result};

/// The project of the demonstration.
const PROJECT: &str = "demo";
const IMAGES: u32 = 12;
const SIZE: (u32, u32) = (480, 360);
const CLASSES: [&str; 3] = ["circle", "square", "triangle"];

/// Something in a picture.
struct Shape {
    class: &'static str,
    colour: [u8; 3],
    x: u32,
    y: u32,
    side: u32,
}

/// Loads a project of twelve images, unless it is there.
pub(crate) async fn load_demo(labels: &Labels, people: &People) -> Result<()> {
    let admin = &people.admin;
    match labels.project(PROJECT) {
        Err(Refusal::NotFound { .. }) => {}
        other => return other.map(drop),
    }
    let new = NewProject { id: Some(PROJECT.to_owned()), name: "Shapes on a table".to_owned() };
    labels.create_project(admin, &new).await?;
    for number in 0..IMAGES {
        let editor = &people.editors[(number % 2) as usize];
        let shapes = shapes(number);
        let name = format!("table-{:02}.png", number + 1);
        let image = labels.upload(editor, PROJECT, &name, draw(&shapes)?).await?.value;
        // The last third is nobody's work yet.
        let seen = if number < IMAGES * 2 / 3 { shapes.len() } else { 0 };
        for shape in &shapes[..seen] {
            annotate(labels, editor, &image.id, shape).await?;
        }
        let word = match number {
            0..4 => "done",
            4..8 => "in_progress",
            _ => continue,
        };
        labels.edit_image(editor, PROJECT, &image.id, &EditImage { status: status(word) }).await?;
        if number == 7 {
            let at = ImageAt { project_id: PROJECT.to_owned(), image_id: image.id };
            labels.acquire(editor, &at).await?;
        }
    }
    Ok(())
}

async fn annotate(labels: &Labels, editor: &Actor, image: &str, shape: &Shape) -> Result<()> {
    let class_id = shape.class.to_owned();
    let new = NewAnnotation { geometry: shape.outline(), class_id, token: None };
    labels.annotate(editor, PROJECT, image, &new).await.map(drop)
}

/// The same shapes each time: numbers that only look like chance.
fn shapes(number: u32) -> Vec<Shape> {
    let mut state = number.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    // Each in a column of its own, so that none hides another.
    let shape = |column: u32| {
        let side = 60 + next(80);
        let colour =
            [80 + next(150), 80 + next(150), 80 + next(150)].map(|value: u32| value.to_le_bytes()[0]);
        let class = CLASSES[next(3) as usize];
        Shape { class, colour, x: column * 160 + next(160 - side), y: next(SIZE.1 - side), side }
    };
    (0..3).map(shape).collect()
}

fn draw(shapes: &[Shape]) -> Result<Vec<u8>> {
    let picture = RgbImage::from_fn(SIZE.0, SIZE.1, |x, y| {
        let table = if (x / 24 + y / 24) % 2 == 0 { [238, 232, 220] } else { [230, 222, 208] };
        Rgb(shapes.iter().find(|shape| shape.covers(x, y)).map_or(table, |shape| shape.colour))
    });
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).map_err(|error| {
        tracing::error!(%error, "a picture could not be drawn");
        Refusal::Broken
    })?;
    Ok(bytes.into_inner())
}

impl Shape {
    fn covers(&self, x: u32, y: u32) -> bool {
        let (Some(x), Some(y)) = (x.checked_sub(self.x), y.checked_sub(self.y)) else { return false };
        if x >= self.side || y >= self.side {
            return false;
        }
        let (doubled_x, doubled_y, side) = (i64::from(2 * x), i64::from(2 * y), i64::from(self.side));
        match self.class {
            "circle" => (doubled_x - side).pow(2) + (doubled_y - side).pow(2) <= side.pow(2),
            "triangle" => (doubled_x - side).abs() <= i64::from(y),
            _ => true,
        }
    }

    fn outline(&self) -> Geometry {
        let [x, y, side] = [self.x, self.y, self.side].map(f64::from);
        match self.class {
            "triangle" => {
                Geometry::Polygon { points: vec![[x + side / 2.0, y], [x + side, y + side], [x, y + side]] }
            }
            _ => Geometry::Rectangle { x, y, width: side, height: side },
        }
    }
}
