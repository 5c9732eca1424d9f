//! A history that is right, and what must be noticed when one thing in it is not.

use serde_json::{Value, json};

use super::*;

/// A time of the record, in milliseconds.
fn at(ms: u64) -> String {
    format!("1970-01-01T00:00:{:02}.{:03}Z", ms / 1_000, ms % 1_000)
}

/// Granted for a second.
fn granted(seq: u64, ms: u64, session: &str, items: &[&str]) -> Value {
    json!({"seq": seq, "at": at(ms), "type": "claim_granted", "claim": format!("lock~d~{seq}"), "session": session,
        "items": items, "token": seq, "ttl_ms": 1_000, "expires_at": at(ms + 1_000)})
}

fn ended(seq: u64, ms: u64, claim: u64, reason: &str) -> Value {
    json!({"seq": seq, "at": at(ms), "type": format!("claim_{reason}"), "claim": format!("lock~d~{claim}"),
        "reason": reason, "ended_at": at(ms)})
}

fn change(version: u64, mark: &str) -> [Value; 2] {
    let before = if version == 1 { json!(null) } else { json!({"version": version - 1}) };
    [before, json!({"version": version, "data": {"mark": mark}})]
}

fn put(seq: u64, ms: u64, item: &str, version: u64, mark: &str, under: u64) -> Value {
    let [before, after] = change(version, mark);
    json!({"seq": seq, "at": at(ms), "type": "item_put", "items": [item], "claim": format!("lock~d~{under}"),
        "before": before, "after": after, "expires_at": at(ms + 1_000)})
}

fn completed(seq: u64, ms: u64, claim: u64, item: &str, version: u64, mark: &str) -> Value {
    let [before, after] = change(version, mark);
    let mut event = ended(seq, ms, claim, "completed");
    event["changes"] = json!([{"item": item, "before": before, "after": after}]);
    event
}

fn op(asked: u64, answered: u64, asks: Asks, got: Got) -> Op {
    Op { asked, answered, is_repeated: false, asks, got }
}

fn claim(session: &str, items: &[&str]) -> Asks {
    Asks::Claim { session: session.into(), items: items.iter().map(|item| (*item).into()).collect() }
}

fn write(item: &str, version: u64, under: u64, mark: &str) -> Asks {
    Asks::Write { item: item.into(), version, under: Some(under), mark: mark.into() }
}

fn held(by: &[(&str, &str)]) -> Got {
    Got::Held(by.iter().map(|(item, session)| ((*item).into(), (*session).into())).collect())
}

fn lost(reason: &str, ended_at_ms: i64) -> Got {
    Got::Lost { reason: reason.into(), ended_at_ms }
}

fn item(version: u64, fence: u64, mark: Option<&str>, claim: Option<u64>, at_ms: i64) -> Got {
    Got::Item(SeenItem { version, fence, mark: mark.map(Into::into), claim, at_ms })
}

fn seen(until_ms: i64, ended: Option<(&str, i64)>, at_ms: i64) -> Got {
    Got::Seen(SeenClaim { until_ms, ended: ended.map(|(reason, at)| (reason.into(), at)), at_ms })
}

/// One claims a and b, prolongs, writes and lets go; one completes a; one lets b run out.
fn record() -> Vec<Value> {
    vec![
        granted(1, 100, "s1", &["a", "b"]),
        put(2, 200, "a", 2, "m1", 1),
        ended(3, 400, 1, "released"),
        granted(4, 500, "s2", &["a"]),
        completed(5, 600, 4, "a", 3, "m2"),
        granted(6, 700, "s3", &["b"]),
        ended(7, 2_000, 6, "expired"),
        granted(8, 2_100, "s4", &["b"]),
    ]
}

/// What was seen of it. The claim 6 was prolonged, which is in no record.
fn ops() -> Vec<Op> {
    vec![
        op(0, 10, claim("s1", &["a", "b"]), Got::Claim(1)),
        op(11, 12, claim("s5", &["a", "b", "c"]), held(&[("a", "s1"), ("b", "s1")])),
        op(13, 20, write("a", 1, 1, "m1"), Got::Written(2)),
        op(21, 22, write("a", 1, 1, "m3"), Got::Conflict(2)),
        op(23, 24, Asks::ReadItem("a".into()), item(2, 1, Some("m1"), Some(1), 300)),
        op(25, 26, Asks::ReadClaim(1), seen(1_200, None, 300)),
        op(30, 40, Asks::Release(1), Got::Released),
        op(41, 42, write("a", 2, 1, "m4"), lost("released", 400)),
        op(43, 50, claim("s2", &["a"]), Got::Claim(4)),
        op(51, 60, Asks::Complete { claim: 4, mark: "m2".into() }, Got::Completed),
        op(61, 70, claim("s3", &["b"]), Got::Claim(6)),
        op(71, 80, Asks::Beat(6), Got::Beaten { at_ms: 1_000, until_ms: 2_000 }),
        op(81, 82, Asks::ReadItem("b".into()), item(1, 6, None, None, 2_000)),
        op(83, 84, Asks::Beat(6), lost("expired", 2_000)),
        op(85, 86, Asks::ReadClaim(6), seen(2_000, Some(("expired", 2_000)), 2_050)),
        op(90, 99, claim("s4", &["b"]), Got::Claim(8)),
        op(93, u64::MAX, Asks::ReadItem("a".into()), Got::Nothing),
    ]
}

fn judged(ops: &[Op], record: &[Value]) -> Result<Compared, String> {
    check(ops, record, Some(LATE))
}

/// One answer is another.
fn instead(at: usize, got: Got) -> Vec<Op> {
    let mut ops = ops();
    ops[at].got = got;
    ops
}

/// One event is another.
fn rewritten(at: usize, change: impl FnOnce(&mut Value)) -> Vec<Value> {
    let mut record = record();
    change(&mut record[at]);
    record
}

#[track_caller]
fn fails(ops: &[Op], record: &[Value], words: &str) {
    match judged(ops, record) {
        Ok(compared) => panic!("nothing was noticed: {words}: {compared:?}"),
        Err(error) => assert!(error.contains(words), "{error}"),
    }
}

#[test]
fn i12_what_happened_in_one_order_passes() {
    let compared = judged(&ops(), &record()).expect("serial");
    let expected = Compared {
        grants: 4,
        unheard: 0,
        beats: 1,
        ends: 2,
        writes: 1,
        refusals: 2,
        losses: 2,
        reads: 4,
        expiries: 1,
    };
    assert_eq!(compared, expected);
    assert!(compared.is_of_all());
}

#[test]
fn a_record_that_does_not_replay_is_noticed() {
    fails(&[], &[granted(1, 0, "s1", &["a"]), granted(3, 0, "s2", &["b"])], "follows");
    fails(&[], &[granted(1, 0, "s1", &["a"]), granted(2, 0, "s2", &["a"])], "while 1 held it");
    fails(&[], &[granted(1, 100, "s1", &["a"]), granted(2, 99, "s2", &["b"])], "runs back");
    fails(&[], &rewritten(1, |event| event["before"]["version"] = json!(5)), "but it had 1");
    fails(&[], &rewritten(1, |event| event["items"] = json!(["c"])), "which does not hold it");
    let twice = [granted(1, 0, "s1", &["a"]), ended(2, 1, 1, "released"), ended(3, 2, 1, "released")];
    fails(&[], &twice, "and again at");
}

#[test]
fn i11_an_answer_without_its_event_is_noticed() {
    fails(&ops(), &record()[..7], "claim 8 was answered and is not there");
    fails(&instead(0, Got::Claim(4)), &record(), "is not what was answered");
    fails(&instead(2, Got::Written(3)), &record(), "that is not there");
    fails(&instead(6, Got::Completed), &[], "is not there");
    let goes_on = [granted(1, 0, "s1", &["a"])];
    let released = [op(0, 1, claim("s1", &["a"]), Got::Claim(1)), op(2, 3, Asks::Release(1), Got::Released)];
    fails(&released, &goes_on, "answered to be released");
    let expired = [granted(1, 0, "s1", &["a"]), ended(2, 1_000, 1, "expired")];
    fails(&released, &expired, "answered to be released");
    fails(&ops(), &rewritten(4, |event| event["changes"] = json!([])), "not all of its items have it");
}

#[test]
fn i11_a_refusal_that_left_a_trace_is_noticed() {
    fails(&instead(8, held(&[("a", "s1")])), &record(), "a request in s2 was refused and is there");
    fails(&instead(2, Got::Conflict(1)), &record(), "a request in m1 was refused and is there");
    fails(&instead(9, lost("expired", 1_500)), &record(), "a request in m2 was refused and is there");
    let mut repeated = instead(2, Got::Conflict(2));
    repeated[2].is_repeated = true;
    judged(&repeated, &record()).expect("it may have been its own write that was in its way");
}

#[test]
fn i13_a_retry_that_counted_twice_is_noticed() {
    let again = [granted(1, 0, "s1", &["a"]), ended(2, 1, 1, "released"), granted(3, 2, "s1", &["a"])];
    fails(&[], &again, "2 times");
    let again = [granted(1, 0, "s1", &["a"]), put(2, 1, "a", 2, "m1", 1), put(3, 2, "a", 3, "m1", 1)];
    fails(&[], &again, "2 times");
}

#[test]
fn i12_an_order_that_is_not_that_of_real_time_is_noticed() {
    let mut late = ops();
    // Asked for after the grant 8 had been answered, and yet before it.
    (late[10].asked, late[10].answered) = (100, 110);
    fails(&late, &record(), "6 was asked for after 8 had been answered");
}

#[test]
fn i12_a_refusal_that_was_never_true_is_noticed() {
    fails(&instead(1, held(&[("a", "s1"), ("b", "s3")])), &record(), "but a refusal said so");
    // The first is right; the second was free, and the third nobody ever had.
    fails(&instead(1, held(&[("a", "s1")])), &record(), "but a refusal said so");
    fails(&instead(1, held(&[("a", "s1"), ("b", "s1"), ("c", "s1")])), &record(), "but a refusal said so");
    fails(&instead(1, held(&[])), &record(), "but a refusal said so");
    fails(&instead(3, Got::Conflict(3)), &record(), "never had version 3");
    let mut stale = ops();
    (stale[1].asked, stale[1].answered) = (45, 46);
    fails(&stale, &record(), "but a refusal said so");
}

#[test]
fn i10_a_loss_without_that_very_end_is_noticed() {
    fails(&instead(7, lost("expired", 400)), &record(), "was lost (expired, 400)");
    fails(&instead(7, lost("released", 401)), &record(), "was lost (released, 401)");
    let mut early = ops();
    // Answered before anybody asked for the release.
    (early[7].asked, early[7].answered) = (11, 12);
    fails(&early, &record(), "was lost (released, 400) before 2");
    fails(&instead(13, lost("released", 2_000)), &record(), "was lost (released, 2000)");
}

#[test]
fn i12_a_read_of_what_never_was_is_noticed() {
    for wrong in [
        item(1, 1, None, Some(1), 300),
        item(3, 4, Some("m2"), None, 300),
        item(2, 1, Some("m4"), Some(1), 300),
        item(2, 1, Some("m1"), None, 300),
    ] {
        fails(&instead(4, wrong), &record(), "a was never like this");
    }
    // Past its deadline nobody holds it, and before that somebody does.
    let until_then = |at_ms| instead(12, item(1, 6, None, None, at_ms))[..13].to_vec();
    judged(&until_then(2_000), &record()[..6]).expect("its time is up");
    fails(&until_then(1_999), &record()[..6], "b was never like this");
    fails(&instead(5, seen(1_100, None, 300)), &record(), "claim 1 was never like this");
    fails(&instead(5, seen(1_200, None, 1_200)), &record(), "claim 1 was never like this");
    fails(
        &instead(5, seen(1_200, Some(("released", 400)), 400)),
        &record(),
        "was lost (released, 400) before 3",
    );
    let mut after = instead(14, seen(2_000, None, 1_999));
    (after[14].asked, after[14].answered) = (100, 101);
    fails(&after, &record(), "claim 6 was never like this");
    fails(
        &instead(14, seen(1_700, Some(("expired", 1_700)), 2_050)),
        &record(),
        "claim 6 was never like this",
    );
}

#[test]
fn i12_who_reads_after_another_sees_nothing_older() {
    // Both while the write is on its way: each alone may be right.
    let read = |asked, version, mark| {
        op(asked, asked + 1, Asks::ReadItem("a".into()), item(version, 1, mark, Some(1), 200))
    };
    let mut ops = vec![
        op(0, 10, claim("s1", &["a", "b"]), Got::Claim(1)),
        op(11, 90, write("a", 1, 1, "m1"), Got::Written(2)),
        read(20, 1, None),
        read(30, 2, Some("m1")),
    ];
    judged(&ops, &record()[..2]).expect("the write came between them");
    ops.push(read(40, 1, None));
    fails(&ops, &record()[..2], "which others had read");
}

#[test]
fn i06_what_is_done_after_the_deadline_is_noticed() {
    let late = rewritten(2, |event| *event = ended(3, 1_300, 1, "released"));
    let mut all = late.clone();
    all.truncate(3);
    fails(&ops()[..1], &all, "which was over 100 ms before");
    fails(
        &instead(11, Got::Beaten { at_ms: 1_000, until_ms: 2_100 }),
        &record(),
        "prolonged by another time",
    );
    let mut over = ops();
    over[11].asks = Asks::Beat(1);
    fails(&over, &record(), "claim 1 was over");
}

#[test]
fn i04_i18_an_expiry_at_another_time_than_its_deadline_is_noticed() {
    let at_its_end = |ms| rewritten(6, move |event| *event = ended(7, ms, 6, "expired"));
    let mut unheard = ops();
    unheard.retain(|op| op.answered < 71 || op.asked > 86);
    fails(&unheard, &record(), "ran out after its deadline 1700");
    unheard.push(op(71, 80, Asks::Beat(6), Got::Nothing));
    judged(&unheard, &record()).expect("that heartbeat may have been carried out");
    fails(&unheard, &at_its_end(1_699), "ran out before its deadline 1700");
    let mut late = record();
    late[6]["at"] = json!(at(4_001));
    late[7] = granted(8, 4_001, "s4", &["b"]);
    fails(&ops(), &late, "was noticed late");
    check(&ops(), &late, None).expect("nobody could write it down");
    let in_a_short_run = |late: &[Value]| check(&ops(), late, Some(LATE_SHORT));
    in_a_short_run(&late).expect("the machine may have stood still");
    let mut later = late.clone();
    later[6]["at"] = json!(at(7_001));
    later[7] = granted(8, 7_001, "s4", &["b"]);
    assert!(in_a_short_run(&later).expect_err("5 s and more").contains("was noticed late"));
    late.remove(6);
    late[6] = granted(7, 4_001, "s4", &["c"]);
    fails(&ops()[10..12], &late, "nobody noticed");
}

#[test]
fn time_that_the_server_was_away_is_given_back_once() {
    let away = json!({"seq": 2, "at": at(900), "type": "resumed", "shift_ms": 500});
    let mut record = vec![granted(1, 0, "s1", &["a"]), away, ended(3, 1_500, 1, "expired")];
    judged(&[], &record).expect("the deadline moved");
    record[2] = ended(3, 1_000, 1, "expired");
    fails(&[], &record, "before its deadline 1500");
    // Whoever was heard after it had the whole second.
    let beat = [op(0, 1, Asks::Beat(1), Got::Beaten { at_ms: 900, until_ms: 1_900 })];
    record[2] = ended(3, 1_900, 1, "expired");
    judged(&beat, &record).expect("nothing is given back twice");
}
