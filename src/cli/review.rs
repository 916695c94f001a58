//! `plimsoll review`: an `AdmissionReview` in, the answer out.

use std::path::PathBuf;

use plimsoll_core::admission::{self as core, Answer, Context as Judged};
use plimsoll_core::hpa;
use plimsoll_core::quota::usage_by_namespace;

use super::{CliError, Context, Exit, examples, standard_input_once};
use crate::input;
use crate::offline::{self, Offline};
use crate::visible::visible_json;

/// Answer an AdmissionReview as the server would
///
/// Exit code 0: allowed; 1: denied; 2: the input is no AdmissionReview that could be answered.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "the answer of the mutating webhook" => "plimsoll review -f review.json --stage mutate --objects cluster/",
    "the answer of the validating webhook" => "plimsoll review -f review.json --stage validate",
))]
pub(super) struct Args {
    /// The AdmissionReview as JSON: a file, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// Which webhook answers
    #[arg(long, value_enum, value_name = "STAGE")]
    stage: Stage,

    #[command(flatten)]
    offline: offline::ClusterArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Stage {
    Mutate,
    Validate,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([
        ("-f", std::slice::from_ref(&args.filename)),
        ("--objects", &args.offline.objects),
    ])?;
    let config = ctx.load_config()?;
    let offline = Offline::load(&args.offline, &config.config)?;
    offline.notes.iter().for_each(|note| ctx.note(note));
    let body = input::read_bytes(&args.filename)?;
    let stage = match args.stage {
        Stage::Mutate => core::Stage::Mutate,
        Stage::Validate => core::Stage::Validate,
    };
    let review = core::read(&body, stage)
        .map_err(|error| CliError::Usage(format!("{}: {error}", args.filename.display())))?;
    let answer: Answer = match args.stage {
        Stage::Mutate if hpa::is_hpa(&review) && config.config.hpa.enabled => {
            hpa::mutate(&review, &offline.context()).answer
        }
        Stage::Mutate => {
            let defaulted = review.object.as_ref().map(|pod| offline.defaulted(pod, &review.namespace));
            core::mutate(&review, &Judged { defaulted: defaulted.as_ref(), ..offline.context() }).answer
        }
        Stage::Validate if core::is_about_pods(&review) => {
            let Judged { objects, settings, .. } = offline.context();
            core::judge_pod(&review, objects, settings, config.config.quota.reclaim.enabled)
        }
        Stage::Validate => {
            let Judged { objects, settings, .. } = offline.context();
            let usage = usage_by_namespace(objects.pods().map(AsRef::as_ref));
            let context = core::ValidateContext { objects, settings, usage: Some(&usage) };
            core::validate(&review, &context)
        }
    };
    let answered = core::write(&review, &answer);
    writeln!(ctx.out, "{}", visible_json(&String::from_utf8_lossy(&answered)))?;
    Ok(if answer.denial.is_some() { Exit::Refused } else { Exit::Done })
}
