//! Arguments that name a judge of answers.

use std::path::PathBuf;

#[derive(Clone, Default, clap::Args)]
pub(crate) struct JudgeArgs {
    /// Have a model judge the answers by the rubric in this file: a text of at most 64 KiB
    ///
    /// Answers are passed as data, apart from the instructions. A question whose answer is stored is not asked again.
    #[arg(long, value_name = "FILE", requires = "judge_model")]
    pub(crate) judge: Option<PathBuf>,
    /// Model of the judge: --judge-model openai/gpt-5
    #[arg(long, value_name = "PROVIDER/MODEL", requires = "judge")]
    pub(crate) judge_model: Option<String>,
    /// Have this program judge the answers
    ///
    /// It gets a JSON object on stdin and prints a JSON object with `verdict` and `reason`, within 60 seconds. It gets no
    /// arguments, and no environment variables but PATH, HOME, LANG and TMPDIR. A program is not asked again about the same answers.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["judge", "judge_model"])]
    pub(crate) judge_program: Option<PathBuf>,
}
