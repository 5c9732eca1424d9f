//! Analyses to look at, in every state: what is finished was really run, by a delivery or by a worker.

use tenure_core::SessionId;

use super::{AnalysisQuery, Failure, Finish, Jobs, NewAnalysis, Workshop};
use crate::demo::People;
use crate::{Actor, Desk, Refusal, Result};

/// What became of it.
#[derive(Clone, Copy)]
enum Then {
    /// It waits.
    Wait,
    /// The built-in analysis ran.
    Run,
    /// A worker of its own has it.
    Hold,
    /// That worker let go in the middle.
    LetGo,
    /// That worker could not do it.
    Fail(&'static str),
}

const DEMO: &[(&str, &str, Then)] = &[
    (
        "demo-01-english",
        "A lease says who holds a thing and until when. The holder renews it while it works. When the \
      holder is gone the lease runs out, and somebody else may take the thing.",
        Then::Run,
    ),
    (
        "demo-02-spanish",
        "La tarea queda bloqueada mientras alguien la procesa. Si esa persona se va, el bloqueo vence \
      solo y otra persona puede tomar la tarea. ¿Y si vuelve? Entonces ve que la ha perdido.",
        Then::Run,
    ),
    (
        "demo-03-japanese",
        "解析ジョブは二回配信されることがあります。ロックを取得したワーカーだけが解析を実行します。期限が過ぎると、\
      次の配信が引き継ぎます。",
        Then::Run,
    ),
    (
        "demo-04-korean",
        "작업은 두 번 전달될 수 있습니다. 잠금을 얻은 작업자만 분석을 실행합니다. 작업자가 멈추면 잠금은 만료됩니다.",
        Then::Run,
    ),
    (
        "demo-05-broken",
        "An attachment that no decoder understands.",
        Then::Fail("exit code 65: no decoder for this attachment"),
    ),
    (
        "demo-06-too-long",
        "A recording of a meeting that went on and on.",
        Then::Fail("exit code 75: stopped after ten minutes"),
    ),
    ("demo-07-running", "Somebody works on this one right now.", Then::Hold),
    ("demo-08-abandoned", "Somebody began this one and let go. The next delivery takes it up.", Then::LetGo),
    ("demo-09-queued", "This one waits for a worker: POST /internal/tasks/analysis runs it.", Then::Wait),
    ("demo-10-queued", "Este espera a un trabajador, como el anterior.", Then::Wait),
];

/// Loads ten analyses, unless there are any.
pub(crate) async fn load_demo(desk: &Desk, people: &People) -> Result<()> {
    let jobs = Jobs::new(desk.clone(), Workshop::default());
    let (admin, editor) = (&people.admin, &people.editors[0]);
    if !jobs
        .list(admin, AnalysisQuery { limit: Some(1), ..AnalysisQuery::default() })
        .await?
        .analyses
        .is_empty()
    {
        return Ok(());
    }
    for (id, input, then) in DEMO {
        jobs.create(editor, NewAnalysis { id: Some((*id).to_owned()), input: (*input).to_owned() }).await?;
        lead(&jobs, admin, id, *then).await?;
    }
    Ok(())
}

async fn lead(jobs: &Jobs, actor: &Actor, id: &str, then: Then) -> Result<()> {
    let owner = SessionId::new("demo-worker")?;
    match then {
        Then::Wait => {}
        Then::Run => drop(jobs.deliver(actor, id).await?),
        Then::Hold => drop(jobs.lock(actor, id, &owner, Some(3_600)).await?),
        Then::LetGo => {
            jobs.lock(actor, id, &owner, None).await?;
            jobs.release(actor, id, &owner).await?;
        }
        Then::Fail(message) => {
            let token = jobs.lock(actor, id, &owner, None).await?.value.token.ok_or(Refusal::Broken)?;
            let error = Some(Failure::new("exit", message));
            jobs.complete(actor, id, Finish { token, result: None, error }).await?;
        }
    }
    Ok(())
}
