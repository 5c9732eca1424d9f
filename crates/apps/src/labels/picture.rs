//! An uploaded image, doubted: what it says it is counts for nothing, what its bytes are does.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{DECODED_BYTES_MAX, PIXELS_MAX, SIDE_MAX, THUMBNAIL_SIDE};
use crate::{Refusal, Result};

/// The formats that are taken. A file is served as one of these and as nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ImageFormat)]
pub enum Format {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

/// What an upload turned out to be.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) format: Format,
    /// As it is shown: turned as the camera says.
    pub(super) width: u32,
    pub(super) height: u32,
    /// A small JPEG of it.
    pub(super) thumbnail: Vec<u8>,
}

impl Format {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }

    /// How its files' names end.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Webp => "webp",
        }
    }
}

/// Reads all of it, within the limits, and makes the thumbnail. Takes a while.
pub(super) fn develop(bytes: &[u8]) -> Result<Picture> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| refused(&error.to_string()))?;
    let format = match reader.format() {
        Some(ImageFormat::Png) => Format::Png,
        Some(ImageFormat::Jpeg) => Format::Jpeg,
        Some(ImageFormat::WebP) => Format::Webp,
        _ => return Err(refused("is neither PNG nor JPEG nor WebP")),
    };
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(SIDE_MAX), Some(SIDE_MAX));
    limits.max_alloc = Some(DECODED_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| unreadable(&error))?;
    let (width, height) = decoder.dimensions();
    // A few bytes can claim to be a wall of pixels: the head is asked before anything is unpacked.
    if width == 0 || height == 0 || u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(refused(&too_large()));
    }
    if decoder.total_bytes() > DECODED_BYTES_MAX {
        return Err(refused("takes too much memory to unpack"));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(|error| unreadable(&error))?;
    let mut small = image.thumbnail(THUMBNAIL_SIDE, THUMBNAIL_SIDE);
    drop(image);
    small.apply_orientation(orientation);
    let thumbnail = encode(&on_white(&small))?;
    let (width, height) = if is_turned(orientation) { (height, width) } else { (width, height) };
    Ok(Picture { format, width, height, thumbnail })
}

/// JPEG knows nothing transparent.
fn on_white(image: &DynamicImage) -> RgbImage {
    let image = image.to_rgba8();
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let [r, g, b, alpha] = image.get_pixel(x, y).0;
        let over = |channel: u8| {
            let mixed = u16::from(channel) * u16::from(alpha) + 255 * (255 - u16::from(alpha));
            u8::try_from(mixed / 255).unwrap_or(255)
        };
        Rgb([over(r), over(g), over(b)])
    })
}

fn encode(image: &RgbImage) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match JpegEncoder::new_with_quality(&mut bytes, 80).encode_image(image) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            tracing::error!(%error, "a thumbnail could not be written");
            Err(Refusal::Broken)
        }
    }
}

fn is_turned(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

fn too_large() -> String {
    format!("must be 1 to {SIDE_MAX} pixels wide and high, and {} megapixels at most", PIXELS_MAX / 1_000_000)
}

fn unreadable(error: &ImageError) -> Refusal {
    match error {
        ImageError::Limits(_) => refused(&too_large()),
        // The decoder's words are about its own insides.
        _ => refused("is damaged, or not what its first bytes say"),
    }
}

fn refused(message: &str) -> Refusal {
    Refusal::invalid("file", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: u32, height: u32) -> DynamicImage {
        let pixel = |x: u32, y: u32| Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], 90]);
        RgbImage::from_fn(width, height, pixel).into()
    }

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).expect("is written");
        bytes.into_inner()
    }

    fn message(bytes: &[u8]) -> String {
        match develop(bytes) {
            Err(Refusal::Invalid { field, message }) => {
                assert_eq!(field, "file");
                message
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_format_is_known_by_its_bytes_and_gets_a_small_picture() {
        for (known, format) in [
            (ImageFormat::Png, Format::Png),
            (ImageFormat::Jpeg, Format::Jpeg),
            (ImageFormat::WebP, Format::Webp),
        ] {
            let picture = develop(&encoded(&drawn(600, 300), known)).expect("is an image");
            assert_eq!((picture.format, picture.width, picture.height), (format, 600, 300));
            let small = image::load_from_memory_with_format(&picture.thumbnail, ImageFormat::Jpeg);
            let small = small.expect("a JPEG");
            assert_eq!((small.width(), small.height()), (THUMBNAIL_SIDE, THUMBNAIL_SIDE / 2));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in
            [&b""[..], b"GIF89a\x01\x00\x01\x00", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"MZ"]
        {
            assert_eq!(message(bytes), "is neither PNG nor JPEG nor WebP");
        }
        let whole = encoded(&drawn(64, 64), ImageFormat::Png);
        assert_eq!(message(&whole[..whole.len() / 2]), "is damaged, or not what its first bytes say");
        assert_eq!(message(&whole[..12]), "is damaged, or not what its first bytes say");
    }

    /// A head that claims more than there may be is refused before anything is unpacked.
    #[test]
    fn a_small_file_that_claims_to_be_huge_is_refused() {
        let mut bytes = encoded(&drawn(1, 1), ImageFormat::Png);
        for (width, height) in [(30_000_u32, 30_000_u32), (u32::MAX / 2, 1), (SIDE_MAX, SIDE_MAX), (0, 5)] {
            bytes[16..20].copy_from_slice(&width.to_be_bytes());
            bytes[20..24].copy_from_slice(&height.to_be_bytes());
            let checksum = crc(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
            let message = message(&bytes);
            assert!(message.contains("megapixels") || width == 0, "{width}×{height}: {message}");
        }
    }

    /// PNG's checksum, bit by bit.
    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, byte| {
            (0..8)
                .fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
        })
    }

    #[test]
    fn what_a_camera_turned_is_shown_upright() {
        // An EXIF block that says: turned by a quarter.
        let exif: &[u8] = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let mut bytes = encoded(&drawn(60, 30), ImageFormat::Jpeg);
        let length = u16::try_from(exif.len() + 2).expect("is short").to_be_bytes();
        bytes.splice(2..2, [&[0xff, 0xe1][..], &length, exif].concat());
        let picture = develop(&bytes).expect("is an image");
        assert_eq!((picture.width, picture.height), (30, 60));
    }

    /// The sums of a PNG's parts, made right again: otherwise hardly anything that is spoiled comes past them.
    fn sum_up(bytes: &mut [u8]) {
        let mut at = 8;
        while let Some(head) = bytes.get(at..at + 4) {
            let length = usize::try_from(u32::from_be_bytes(head.try_into().expect("four"))).expect("fits");
            let end = at.saturating_add(8).saturating_add(length);
            if end.saturating_add(4) > bytes.len() {
                return;
            }
            let sum = crc(&bytes[at + 4..end]).to_be_bytes();
            bytes[end..end + 4].copy_from_slice(&sum);
            at = end + 4;
        }
    }

    /// E9: a spoiled picture is one within the limits, with a small one, or it is refused by its field.
    #[test]
    fn e9_a_spoiled_picture_is_one_within_the_limits_or_refused() {
        // Wide and flat, so that the small one is, too: it takes longest.
        let corpus = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP]
            .map(|format| encoded(&drawn(300, 2), format));
        let mut turn = 0;
        let judged = tenure_spoil::spoiled(&corpus, |bytes| {
            let mut bytes = bytes.to_vec();
            turn += 1;
            if turn % 2 == 0 && bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
                sum_up(&mut bytes);
            }
            match develop(&bytes) {
                Ok(Picture { width, height, thumbnail, .. }) => {
                    let is_within = width > 0 && height > 0 && width.max(height) <= SIDE_MAX;
                    let is_few = u64::from(width) * u64::from(height) <= PIXELS_MAX;
                    let is_small = thumbnail.starts_with(b"\xff\xd8") && thumbnail.len() < 64 << 10;
                    if is_within && is_few && is_small {
                        Ok(true)
                    } else {
                        Err(format!("{width}×{height} is taken"))
                    }
                }
                Err(Refusal::Invalid { field, message }) if field == "file" && !message.is_empty() => {
                    Ok(false)
                }
                Err(other) => Err(format!("it is refused as {other:?}")),
            }
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
