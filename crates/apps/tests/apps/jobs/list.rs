//! Queueing and looking.

use tenure_apps::Refusal;
use tenure_apps::demo::People;
use tenure_apps::jobs::{AnalysisQuery, AnalysisStatus, NewAnalysis};

use super::world::{TTL_MS, World, ready};
use crate::common::{START_MS, code, person};

fn new(id: Option<&str>, input: &str) -> NewAnalysis {
    NewAnalysis { id: id.map(str::to_owned), input: input.to_owned() }
}

async fn ids(w: &World, query: AnalysisQuery) -> Vec<String> {
    let page = w.jobs.list(&w.wes, query).await.expect("is read");
    page.analyses.into_iter().map(|analysis| analysis.id).collect()
}

#[tokio::test]
async fn an_analysis_is_queued_with_its_own_id_or_a_new_one() {
    let w = World::new();
    let made = w.jobs.create(&w.wes, new(Some("report.7"), " Some\n  text ")).await.expect("is queued").value;
    assert_eq!((made.id.as_str(), made.status.as_str(), made.version), ("report.7", "QUEUED", 1));
    assert_eq!((made.excerpt.as_str(), made.input.as_deref()), ("Some text", Some(" Some\n  text ")));
    assert_eq!((made.queued_by.as_str(), made.queued_at.0), ("wes", START_MS));
    let other = w.jobs.create(&w.wes, new(None, "text")).await.expect("is queued").value;
    assert!(other.id.starts_with("a-") && other.id.len() > 10, "{}", other.id);
    let taken = w.jobs.create(&w.wes, new(Some("report.7"), "other")).await;
    assert_eq!(code(&taken), "conflict");
    assert_eq!(w.analysis("report.7").input.as_deref(), Some(" Some\n  text "));
}

#[tokio::test]
async fn what_cannot_be_an_analysis_is_refused_with_the_field() {
    let w = World::new();
    let large = "x".repeat(40 * 1024 - 1);
    let controls = "\u{1}".repeat(40 * 1024 / 6 + 1);
    let long = "i".repeat(65);
    let wrong = [
        (new(Some(""), "text"), "id"),
        (new(Some("."), "text"), "id"),
        (new(Some("a/b"), "text"), "id"),
        (new(Some("año"), "text"), "id"),
        (new(Some(&long), "text"), "id"),
        (new(None, ""), "input"),
        (new(None, " \n"), "input"),
        (new(None, &large), "input"),
        (new(None, &controls), "input"),
    ];
    for (new, field) in wrong {
        let refused = w.jobs.create(&w.wes, new).await.map(drop).expect_err("is wrong");
        assert!(matches!(&refused, Refusal::Invalid { field: wrong, .. } if wrong == field), "{refused:?}");
    }
    assert!(w.office.desk.reader().collections(None, 10).expect("reads").rows.is_empty());
    for id in ["nobody", "", "a\u{7}b", &"i".repeat(300)] {
        assert_eq!(code(&w.jobs.get(&w.wes, id)), "not_found", "{id}");
    }
}

/// A list shows what a worker could take now, without waiting for anybody to sweep.
#[tokio::test]
async fn a_list_is_filtered_by_status_and_by_what_can_be_taken() {
    let w = World::new();
    assert_eq!(ids(&w, AnalysisQuery::default()).await, [""; 0]);
    for id in ["a", "b", "c", "d"] {
        w.queued(id, "text").await;
    }
    w.locked("a", "w-1").await;
    w.pass(TTL_MS - 1);
    w.locked("b", "w-1").await;
    let token = w.locked("c", "w-1").await;
    w.jobs.complete(&w.wes, "c", ready(token)).await.expect("is ours");
    let claimable = |claimable| AnalysisQuery { claimable: Some(claimable), ..AnalysisQuery::default() };
    assert_eq!(ids(&w, claimable(true)).await, ["d"]);
    assert_eq!(ids(&w, claimable(false)).await, ["a", "b", "c"]);
    w.pass(1);
    assert_eq!(ids(&w, claimable(true)).await, ["a", "d"]);
    let status = Some(AnalysisStatus::Running);
    assert_eq!(ids(&w, AnalysisQuery { status, ..AnalysisQuery::default() }).await, ["a", "b"]);
}

#[tokio::test]
async fn a_list_comes_in_pages_without_inputs_and_results() {
    let w = World::new();
    for number in 0..7 {
        w.queued(&format!("n-{number}"), &format!("text {number} {}", "long ".repeat(100))).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = AnalysisQuery { after, limit: Some(3), ..AnalysisQuery::default() };
        let page = w.jobs.list(&w.wes, query).await.expect("is read");
        assert!(page.analyses.iter().all(|row| row.input.is_none() && row.excerpt.ends_with('…')));
        seen.extend(page.analyses.into_iter().map(|row| row.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..7).map(|number| format!("n-{number}")).collect::<Vec<_>>());
    for limit in [0, 201] {
        let query = AnalysisQuery { limit: Some(limit), ..AnalysisQuery::default() };
        assert_eq!(code(&w.jobs.list(&w.wes, query).await), "invalid");
    }
}

/// Ten, in every state, loaded once.
#[tokio::test]
async fn the_demonstration_shows_every_state() {
    let w = World::new();
    let people = People { admin: person("root"), editors: [person("ana"), person("bruno")] };
    w.office.load_demo(&people).await;
    let rows = w.jobs.list(&w.wes, AnalysisQuery::default()).await.expect("is read").analyses;
    let count = |word: &str| rows.iter().filter(|row| row.status.as_str() == word).count();
    assert_eq!(
        (rows.len(), count("READY"), count("FAILED"), count("RUNNING"), count("QUEUED")),
        (10, 4, 2, 2, 2)
    );
    assert_eq!(rows.iter().filter(|row| row.lock.owner.is_some()).count(), 1);
    for (id, code) in [("demo-01-english", "en"), ("demo-02-spanish", "es"), ("demo-03-japanese", "ja")] {
        let result = w.analysis(id).result.expect("it ran");
        assert!(result.as_str().starts_with(&format!(r#"{{"language":{{"code":"{code}""#)), "{result:?}");
    }
    let before = w.office.commits();
    w.office.load_demo(&people).await;
    assert_eq!(w.office.commits(), before);
}
