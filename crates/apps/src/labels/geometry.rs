//! What an annotation outlines: a shape in the image's own pixels.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::POINTS_MAX;
use crate::{Refusal, Result};

/// A shape. Coordinates are pixels from the top left corner, as the image is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schema(example = json!({"type": "rectangle", "x": 40, "y": 32.5, "width": 120, "height": 80}))]
pub enum Geometry {
    /// Upright.
    Rectangle {
        /// Its left edge.
        x: f64,
        /// Its upper edge.
        y: f64,
        /// More than 0.
        width: f64,
        /// More than 0.
        height: f64,
    },
    /// Closed by itself: the last point is joined to the first.
    Polygon {
        /// `[x, y]`, 3 to 1,000 of them.
        #[schema(min_items = 3, max_items = 1_000)]
        points: Vec<[f64; 2]>,
    },
}

/// Sums of coordinates may miss the edge by rounding; no eye sees this much.
const SLACK: f64 = 1e-6;

impl Geometry {
    /// Refuses what is no shape inside an image of this size, naming the field.
    pub(super) fn check(&self, width: u32, height: u32) -> Result<()> {
        let (image_width, image_height) = (f64::from(width), f64::from(height));
        // What is not a number compares with nothing and is refused here too.
        let within = |value: f64, max: f64| (0.0..=max + SLACK).contains(&value);
        let outside = |field: &str, max: f64| {
            let message = format!("lies outside of the image: 0 to {max} are inside");
            Err(Refusal::invalid(format!("geometry.{field}"), message))
        };
        match self {
            Self::Rectangle { x, y, width, height } => {
                for (field, start, length, max) in
                    [("x", *x, ("width", *width), image_width), ("y", *y, ("height", *height), image_height)]
                {
                    let (length_field, length) = length;
                    if !within(start, max) {
                        return outside(field, max);
                    }
                    if !(length.is_finite() && length > 0.0) {
                        let message = "must be more than 0";
                        return Err(Refusal::invalid(format!("geometry.{length_field}"), message));
                    }
                    if !within(start + length, max) {
                        let message = format!("reaches outside of the image: it ends at {max}");
                        return Err(Refusal::invalid(format!("geometry.{length_field}"), message));
                    }
                }
                Ok(())
            }
            Self::Polygon { points } => {
                if !(3..=POINTS_MAX).contains(&points.len()) {
                    let message = format!("must be 3 to {POINTS_MAX} points");
                    return Err(Refusal::invalid("geometry.points", message));
                }
                for (index, [x, y]) in points.iter().enumerate() {
                    if !within(*x, image_width) {
                        return outside(&format!("points[{index}][0]"), image_width);
                    }
                    if !within(*y, image_height) {
                        return outside(&format!("points[{index}][1]"), image_height);
                    }
                }
                let first = points[0];
                let is_line = points.windows(2).all(|pair| {
                    let ([ax, ay], [bx, by]) = (pair[0], pair[1]);
                    ((ax - first[0]) * (by - first[1]) - (ay - first[1]) * (bx - first[0])).abs() < SLACK
                });
                if is_line {
                    return Err(Refusal::invalid("geometry.points", "lie on one line: nothing is inside"));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field that is refused, in an image of 100 × 50.
    #[expect(clippy::needless_pass_by_value, reason = "a literal reads better")]
    fn check(geometry: Geometry, refused: Option<&str>) {
        let field = match geometry.check(100, 50) {
            Err(Refusal::Invalid { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        };
        assert_eq!(field.as_deref(), refused, "{geometry:?}");
    }

    fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Geometry {
        Geometry::Rectangle { x, y, width, height }
    }

    fn polygon(points: &[[f64; 2]]) -> Geometry {
        Geometry::Polygon { points: points.to_vec() }
    }

    #[test]
    fn a_rectangle_lies_inside_the_image() {
        check(rectangle(0.0, 0.0, 100.0, 50.0), None);
        check(rectangle(99.9, 49.9, 0.1, 0.1), None);
        check(rectangle(-0.1, 0.0, 1.0, 1.0), Some("geometry.x"));
        check(rectangle(0.0, 50.5, 1.0, 1.0), Some("geometry.y"));
        check(rectangle(60.0, 0.0, 40.5, 1.0), Some("geometry.width"));
        check(rectangle(0.0, 40.0, 1.0, 10.5), Some("geometry.height"));
        check(rectangle(0.0, 0.0, 0.0, 1.0), Some("geometry.width"));
        check(rectangle(0.0, 0.0, 1.0, -1.0), Some("geometry.height"));
        check(rectangle(f64::NAN, 0.0, 1.0, 1.0), Some("geometry.x"));
        check(rectangle(0.0, f64::INFINITY, 1.0, 1.0), Some("geometry.y"));
        check(rectangle(0.0, 0.0, f64::NAN, 1.0), Some("geometry.width"));
        check(rectangle(0.0, 0.0, 1.0, f64::INFINITY), Some("geometry.height"));
    }

    #[test]
    fn a_polygon_has_three_points_or_more_and_all_of_them_inside() {
        check(polygon(&[[0.0, 0.0], [100.0, 0.0], [50.0, 50.0]]), None);
        check(polygon(&[[0.0, 0.0], [1.0, 1.0]]), Some("geometry.points"));
        check(polygon(&[]), Some("geometry.points"));
        check(polygon(&[[0.0, 0.0], [101.0, 0.0], [5.0, 5.0]]), Some("geometry.points[1][0]"));
        check(polygon(&[[0.0, 0.0], [1.0, 0.0], [5.0, f64::NAN]]), Some("geometry.points[2][1]"));
        check(polygon(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), Some("geometry.points"));
        check(polygon(&[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), Some("geometry.points"));
        let circle = |count: u32| {
            let points = (0..count).map(|index| {
                let angle = f64::from(index) / f64::from(count) * std::f64::consts::TAU;
                [50.0 + 20.0 * angle.cos(), 25.0 + 20.0 * angle.sin()]
            });
            Geometry::Polygon { points: points.collect() }
        };
        check(circle(1_000), None);
        check(circle(1_001), Some("geometry.points"));
    }
}
