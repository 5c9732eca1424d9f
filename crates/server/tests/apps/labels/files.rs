//! Files: uploaded in a form, doubted, served as what they are.

use std::convert::Infallible;
use std::io::Cursor;

use axum::body::{Body, Bytes};
use axum::http::Method;
use futures_util::{FutureExt, stream};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::json;
use tenure_apps::labels::FILE_BYTES_MAX;
use tenure_server::limits::{UPLOADS_MAX, UPLOADS_PER_PERSON_MAX};

use super::{PROJECT, server};
use crate::server::{Call, Reply, Server};

const IMAGES: &str = "/api/v1/projects/streets/images";

pub(super) fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let image = RgbImage::from_fn(width, height, |x, y| Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], 128]));
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::from(image).write_to(&mut bytes, format).expect("is written");
    bytes.into_inner()
}

/// One field of a form: its name with what else stands in its head, and its content.
type Field<'a> = (&'a str, &'a [u8]);

fn form(boundary: &str, fields: &[Field<'_>]) -> Call {
    let mut body = Vec::new();
    for (head, content) in fields {
        let start = format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        body.extend([start.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend(format!("--{boundary}--\r\n").as_bytes());
    Call::new("ana", Method::POST, IMAGES).raw(&format!("multipart/form-data; boundary={boundary}"), body)
}

pub(super) async fn upload(s: &Server, bytes: &[u8]) -> Reply {
    s.send(form("b", &[(r#"name="file"; filename="C:\\pictures\\crossing.png""#, bytes)])).await
}

/// L6: an upload is known by its content, gets a thumbnail, and is served as what it is and as nothing else.
#[tokio::test]
async fn l06_an_upload_is_served_as_what_it_is() {
    let s = server().await;
    for (known, word, media_type) in [
        (ImageFormat::Png, "png", "image/png"),
        (ImageFormat::Jpeg, "jpeg", "image/jpeg"),
        (ImageFormat::WebP, "webp", "image/webp"),
    ] {
        let bytes = picture(400, 200, known);
        let made = upload(&s, &bytes).await.status(201);
        let location = made.header("location").to_owned();
        let made = made.json();
        assert_eq!((&made["name"], &made["format"]), (&json!("crossing.png"), &json!(word)));
        assert_eq!(
            (&made["width"], &made["height"], &made["bytes"]),
            (&json!(400), &json!(200), &json!(bytes.len()))
        );
        assert_eq!(location, format!("{IMAGES}/{}", made["id"].as_str().expect("an id")));
        let file = made["file_url"].as_str().expect("a place");
        let served = s.get("vera:viewer", file).await.status(200);
        assert_eq!((served.header("content-type"), &served.bytes[..]), (media_type, &bytes[..]));
        let thumbnail = made["thumbnail_url"].as_str().expect("a place");
        let small = s.get("vera:viewer", thumbnail).await.status(200);
        assert_eq!(small.header("content-type"), "image/jpeg");
        let small = image::load_from_memory(&small.bytes).expect("is an image");
        assert_eq!((small.width(), small.height()), (256, 128));
    }
}

/// No browser takes a file for something else, keeps it for others, or asks twice.
#[tokio::test]
async fn a_file_is_served_safely_and_kept_by_its_reader() {
    let s = server().await;
    let made = upload(&s, &picture(40, 20, ImageFormat::Png)).await.status(201).json();
    for place in ["file_url", "thumbnail_url"] {
        let path = made[place].as_str().expect("a place");
        let served = s.get("ana", path).await.status(200);
        assert_eq!(served.header("x-content-type-options"), "nosniff");
        assert!(served.header("content-security-policy").contains("sandbox"));
        assert_eq!(served.header("cache-control"), "private, max-age=31536000, immutable");
        assert!(served.header("content-disposition").starts_with("inline; filename=\"image-"));
        assert_eq!(served.header("content-length"), served.bytes.len().to_string());
        let etag = served.header("etag").to_owned();
        let again = Call::new("ana", Method::GET, path).header("if-none-match", &format!("\"x\", W/{etag}"));
        let again = s.send(again).await.status(304);
        assert_eq!((again.header("etag"), again.bytes.len()), (etag.as_str(), 0));
        let head = s.send(Call::new("ana", Method::HEAD, path)).await.status(200);
        assert_eq!((head.header("content-type"), head.bytes.len()), (served.header("content-type"), 0));
        s.get("", path).await.code(401, "unauthenticated");
        s.get("ana:editor:task", path).await.code(403, "forbidden");
    }
    s.get("ana", &format!("{IMAGES}/..%2F..%2Fsecret.key/file")).await.code(404, "not_found");
    s.get("ana", &format!("{IMAGES}/project/file")).await.code(404, "not_found");
}

/// What is no image, and what only claims to be one, is refused and leaves nothing.
#[tokio::test]
async fn an_upload_that_is_no_image_is_refused() {
    let s = server().await;
    let whole = picture(64, 64, ImageFormat::Png);
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    for bytes in
        [&b""[..], b"<svg onload='alert(1)'/>", b"GIF89a\x01\x00\x01\x00", &whole[..whole.len() / 2], &huge]
    {
        upload(&s, bytes).await.invalid("file");
    }
    assert_eq!(s.get("ana", IMAGES).await.json()["images"], json!([]));
}

/// A form has one file and perhaps a name.
#[tokio::test]
async fn a_form_is_one_file_and_perhaps_a_name() {
    let s = server().await;
    let bytes = picture(8, 8, ImageFormat::Png);
    let (file, plain) = (r#"name="file"; filename="a.png""#, r#"name="file""#);
    let send = async |fields: &[Field<'_>]| s.send(form("b", fields)).await;
    let named = send(&[(file, &bytes), (r#"name="name""#, "Cruce número 1".as_bytes())]).await.status(201);
    assert_eq!(named.json()["name"], "Cruce número 1");
    send(&[]).await.invalid("file");
    send(&[(plain, &bytes)]).await.invalid("name");
    send(&[(file, &bytes), (file, &bytes)]).await.invalid("file");
    send(&[(file, &bytes), (r#"name="name""#, b"\xff")]).await.invalid("name");
    send(&[(file, &bytes), (r#"name="name""#, "x".repeat(201).as_bytes())]).await.invalid("name");
    send(&[(file, &bytes), (r#"name="name""#, b"a\nb")]).await.invalid("name");
    send(&[(file, &bytes), (r#"name="more""#, b"")]).await.invalid("body");
    let cut = Call::new("ana", Method::POST, IMAGES).raw(
        "multipart/form-data; boundary=b",
        "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nPNG",
    );
    s.send(cut).await.code(400, "malformed");
    let unbound = Call::new("ana", Method::POST, IMAGES).raw("multipart/form-data", "x");
    s.send(unbound).await.code(415, "unsupported_media_type");
    assert_eq!(s.get("ana", IMAGES).await.json()["images"].as_array().map(Vec::len), Some(1));
}

/// 20 MiB are read and looked at; one byte more is not, and other routes take no such body.
#[tokio::test]
async fn a_file_has_twenty_mebibytes_at_most() {
    let s = server().await;
    let mut bytes = picture(8, 8, ImageFormat::Png);
    // What follows the end of a PNG is nobody's.
    bytes.resize(FILE_BYTES_MAX, 0);
    upload(&s, &bytes).await.status(201);
    bytes.push(0);
    upload(&s, &bytes).await.code(413, "too_large");
    bytes.resize(FILE_BYTES_MAX + 128 * 1024, 0);
    upload(&s, &bytes).await.code(413, "too_large");
    let json = Call::new("ana", Method::POST, IMAGES).raw("application/json", " ".repeat(65 * 1024));
    s.send(json).await.code(413, "too_large");
}

/// So many uploads are read at once, and of one person a few; the next one is told to come again, and comes in
/// when one has ended.
#[tokio::test]
async fn uploads_beyond_the_limit_are_told_to_come_again() {
    let s = server().await;
    let stalled = |who: &str| {
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let call = Call::new(who, Method::POST, IMAGES).raw("multipart/form-data; boundary=b", body);
        let mut sent = Box::pin(s.send(call));
        assert!((&mut sent).now_or_never().is_none(), "it waits for its body");
        sent
    };
    let bytes = picture(8, 8, ImageFormat::Png);
    let mut waiting: Vec<_> = (0..UPLOADS_PER_PERSON_MAX).map(|_| stalled("ana")).collect();
    upload(&s, &bytes).await.code(503, "overloaded");
    waiting.pop();
    upload(&s, &bytes).await.status(201);
    waiting.extend((waiting.len()..UPLOADS_MAX).map(|index| stalled(&format!("p{index}:editor"))));
    let refused = upload(&s, &bytes).await.code(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    waiting.pop();
    upload(&s, &bytes).await.status(201);
}

/// E4: the same file under the same name is the same request, whatever the form's boundary is.
#[tokio::test]
async fn e04_a_retried_upload_is_the_first_one() {
    let s = server().await;
    let (one, other) = (picture(8, 8, ImageFormat::Png), picture(9, 9, ImageFormat::Png));
    let send = async |boundary: &str, name: &str, bytes: &[u8]| {
        let head = format!("name=\"file\"; filename=\"{name}\"");
        s.send(form(boundary, &[(&head, bytes)]).key("k-1")).await
    };
    let first = send("one", "a.png", &one).await.status(201).json();
    let again = send("another", "a.png", &one).await.status(201);
    assert_eq!((again.header("idempotency-replayed"), &again.json()["id"]), ("true", &first["id"]));
    send("one", "a.png", &other).await.code(422, "key_reused");
    send("one", "b.png", &one).await.code(422, "key_reused");
    assert_eq!(
        s.get("ana", &format!("{PROJECT}/images")).await.json()["images"].as_array().map(Vec::len),
        Some(1)
    );
}
