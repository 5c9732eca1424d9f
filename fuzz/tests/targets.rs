//! Ten thousand spoiled inputs for each target.

use tenure_spoil::INPUTS;

fn nothing_breaks(name: &str) {
    if let Err(broken) = tenure_fuzz::run(name, 1..=INPUTS) {
        panic!("{broken}");
    }
}

#[test]
fn a_spoiled_journal_is_refused_or_read_as_far_as_it_is_whole() {
    nothing_breaks("journal");
}

#[test]
fn a_spoiled_request_is_no_failure_of_the_servers() {
    nothing_breaks("request");
}

#[test]
fn a_spoiled_frame_is_read_or_refused() {
    nothing_breaks("frame");
}

#[test]
fn a_spoiled_policy_is_refused_or_stays_what_it_is() {
    nothing_breaks("policy");
}

#[test]
fn a_spoiled_connection_is_read_as_by_another_reader_or_left_to_hyper() {
    nothing_breaks("head");
}

#[test]
fn spoiled_frames_are_read_as_by_another_reader() {
    nothing_breaks("wire");
}

#[test]
fn spoiled_streams_of_frames_are_answered_or_closed_with_a_code_and_break_nothing() {
    nothing_breaks("socket");
}

#[test]
fn a_spoiled_configuration_is_refused_by_its_key_or_stays_what_it_is() {
    nothing_breaks("config");
}

#[test]
fn a_spoiled_upload_is_refused_by_its_field_and_is_no_failure_of_the_servers() {
    nothing_breaks("upload");
}
