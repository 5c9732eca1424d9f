//! Short words for labels.

use std::io::Cursor;
use std::sync::Arc;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use tenure_apps::Actor;
use tenure_apps::files::{Files, InMemory};
use tenure_apps::labels::{
    Annotation, EditAnnotation, Geometry, Image, ImageAt, Labels, NewAnnotation, NewImage, NewProject,
    PageQuery,
};

use crate::common::{Office, person};

pub(crate) const PROJECT: &str = "streets";
pub(crate) const COLLECTION: &str = "image/streets";

/// An office with the application in it and a project of Olga's.
pub(crate) struct World {
    pub(crate) office: Office,
    pub(crate) labels: Labels,
    pub(crate) files: InMemory,
    pub(crate) ana: Actor,
    pub(crate) bea: Actor,
    /// The project's owner.
    pub(crate) olga: Actor,
    /// Only looks.
    pub(crate) vera: Actor,
}

impl World {
    pub(crate) async fn new() -> Self {
        let world = Self::in_office(Office::new(), InMemory::default());
        let new = NewProject { id: Some(PROJECT.to_owned()), name: "Streets".to_owned() };
        world.labels.create_project(&world.olga, &new).await.expect("is made");
        world
    }

    fn in_office(office: Office, files: InMemory) -> Self {
        let labels = Labels::new(office.desk.clone(), Arc::new(files.clone()));
        let [ana, bea, olga, vera] = ["ana", "bea", "olga", "vera"].map(person);
        Self { office, labels, files, ana, bea, olga, vera }
    }

    /// A new process; the files are where they were.
    pub(crate) fn restart(self) -> Self {
        let Self { office, labels, files, .. } = self;
        drop(labels);
        Self::in_office(office.restart(), files)
    }

    /// An image of 100 × 50; gives its id.
    pub(crate) async fn image(&self) -> String {
        let new = NewImage { name: "crossing".to_owned(), width: 100, height: 50 };
        self.labels.add_image(&self.ana, PROJECT, &new).await.expect("is added").value.id
    }

    pub(crate) fn shown(&self, image: &str) -> Image {
        self.labels.get_image(&self.ana, PROJECT, image).expect("is there")
    }

    /// A box in an image.
    pub(crate) async fn annotation(&self, by: &Actor, image: &str) -> Annotation {
        self.labels.annotate(by, PROJECT, image, &new(1.0)).await.expect("is made").value
    }

    /// The annotations of an image.
    pub(crate) async fn annotations(&self, image: &str) -> Vec<Annotation> {
        let page = self.labels.annotations(PROJECT, image, PageQuery::default()).await;
        page.expect("is read").annotations
    }

    pub(crate) fn file(&self, bytes: &[u8]) -> bool {
        let id = tenure_apps::files::FileId::of(bytes);
        self.files.open(&id).expect("opens").is_some()
    }
}

pub(crate) fn at(image: &str) -> ImageAt {
    ImageAt { project_id: PROJECT.to_owned(), image_id: image.to_owned() }
}

pub(crate) fn square(x: f64) -> Geometry {
    Geometry::Rectangle { x, y: 2.0, width: 10.0, height: 10.0 }
}

pub(crate) fn new(x: f64) -> NewAnnotation {
    NewAnnotation { geometry: square(x), class_id: "car".to_owned(), token: None }
}

pub(crate) fn edit(x: f64, version: u64) -> EditAnnotation {
    EditAnnotation { geometry: square(x), class_id: "bus".to_owned(), version, token: None }
}

/// A picture in this format.
pub(crate) fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let image = RgbImage::from_fn(width, height, |x, y| Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], 128]));
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::from(image).write_to(&mut bytes, format).expect("is written");
    bytes.into_inner()
}
