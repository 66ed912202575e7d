//! The pages that the user wants of a job, and what must be right before it runs.

use std::process::ExitStatus;

use super::arguments::{Mode, MpirunArguments, Protocol};
use super::propagation_page;
use super::report_page::{EndedJob, of_job};
use super::reports::JobReport;
use super::study::PropagationStudy;
use crate::error::Error;
use crate::output::file::Output;
use crate::process::program::describe_end;

/// Files that are written when the job has ended.
pub struct JobPages {
    report: Option<Output>,
    propagation: Option<Output>,
}

impl JobPages {
    /// Checks that they can be written, and that the job can have what they show.
    ///
    /// # Errors
    /// [`Error::Replicas`] for what cannot be had together, or a flip that hits nothing or has no reference,
    /// [`Error::Report`] if a file cannot be written.
    pub fn prepare(arguments: &MpirunArguments) -> Result<Self, Error> {
        if arguments.mode == Mode::Later && arguments.propagation.is_some() {
            let why = "--propagation needs --mode now: it follows each message when the program gets it";
            return Err(Error::Replicas(why.to_owned()));
        }
        if arguments.mode == Mode::Later && arguments.protocol == Protocol::AllToAll {
            let why = "--protocol all-to-all needs --mode now: with --mode later, no copies of messages travel";
            return Err(Error::Replicas(why.to_owned()));
        }
        if let Some(flip) = &arguments.inject {
            if let Some(why) = flip.misses(arguments.n.get(), arguments.replicas) {
                return Err(Error::Replicas(format!("--inject: {why}")));
            }
            if arguments.propagation.is_some() && flip.replica().is_none() {
                let why = "--propagation: --inject must name a replica, as in flip:send:at=3,replica=1; the others stay right";
                return Err(Error::Replicas(why.to_owned()));
            }
        }
        if arguments.report.is_some() && arguments.report == arguments.propagation {
            return Err(Error::Replicas("--report and --propagation name the same file".to_owned()));
        }
        let prepare = |path: &Option<_>| path.as_deref().map(Output::prepare).transpose();
        Ok(Self { report: prepare(&arguments.report)?, propagation: prepare(&arguments.propagation)? })
    }

    /// Writes them.
    ///
    /// # Errors
    /// [`Error::Report`] if a file cannot be written.
    pub fn write(
        self,
        arguments: &MpirunArguments,
        report: &JobReport,
        study: Option<&PropagationStudy>,
        status: ExitStatus,
    ) -> Result<(), Error> {
        let job = EndedJob { arguments, report, study, ended: describe_end(status) };
        if let Some(file) = self.report {
            file.write(of_job(&job).as_bytes())?;
        }
        if let Some((file, study)) = self.propagation.zip(study) {
            file.write(propagation_page::of_study(&job, study).as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: MpirunArguments,
    }

    fn arguments(words: &[&str]) -> MpirunArguments {
        let words = ["rampart", "-n", "4"].iter().chain(words);
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).arguments
    }

    /// What the processes of a job said: rank 1 was hit, and rank 2 got a wrong message.
    fn report(last: &str) -> JobReport {
        let mut report = JobReport::default();
        for (rank, replica, line) in [
            (1, 1, "begin <node>"),
            (2, 0, "begin other"),
            (1, 1, "injected message 3 to 2 tag 7 bytes 80 bit 24 compared 4 step 2"),
            (
                2,
                0,
                "mismatch <b>MPI comm 1 peer 0 sender 1 tag 7 bytes 4000 offset 3 number 5 step 2 wrong 0x2 replaced",
            ),
            (2, 0, "end compared 10 differed 1 replaced 1 steps 9"),
            (1, 1, last),
        ] {
            report.see(rank, replica, line);
        }
        report
    }

    const END: &str = "end compared 10 differed 0 replaced 0 steps 9";

    fn job<'a>(arguments: &'a MpirunArguments, report: &'a JobReport) -> EndedJob<'a> {
        EndedJob { arguments, report, study: None, ended: "exit code 3".to_owned() }
    }

    #[test]
    fn a_page_shows_each_mismatch_and_escapes_what_it_says() {
        let (arguments, mut report) = (arguments(&["--", "./<program>", "a&b"]), report(END));
        let page = of_job(&job(&arguments, &report));
        let number = |number| format!("<td class=\"number\">{number}</td>");
        let numbers = ["0", "7", "4,000", "3", "5", "2"].map(number).concat();
        let cells = format!("<td>&lt;b&gt;MPI</td>{numbers}<td>1</td><td>replaced</td><td>&lt;node&gt;</td>");
        assert!(page.contains(&cells), "{page}");
        assert!(page.contains("<code>./&lt;program&gt; a&amp;b</code>") && page.contains("exit code 3"), "{page}");
        assert!(page.contains("Every wrong message was replaced") && page.contains("&lt;node&gt;: 1 wrong"), "{page}");
        assert!(page.contains("<b>20</b><span>messages compared") && page.contains("<b>1</b><span>bits flipped"));
        assert_eq!(
            (page.matches("<svg").count(), page.matches("opacity=\"1\" fill=\"#0072B2\"").count()),
            (3, 4),
            "a bar a rank"
        );
        assert!(!page.contains("<program>") && !page.contains("<node>") && !page.contains("<b>MPI"), "{page}");
        report.see(
            2,
            0,
            "mismatch message comm 1 peer 0 sender 1 tag 7 bytes 4 offset -1 number 6 step 2 wrong 0x2 kept",
        );
        assert!(of_job(&job(&arguments, &report)).contains("were not corrected"), "the program has it");
        report.see(0, 0, "stopped replicas differ in a <i>");
        let stopped = of_job(&job(&arguments, &report));
        assert!(stopped.contains("The job was stopped: rank 0: replicas differ in a &lt;i&gt;"), "{stopped}");
        let nothing = of_job(&job(&arguments, &JobReport::default()));
        assert!(nothing.contains("nothing was compared") && !nothing.contains("<svg"), "{nothing}");
    }

    #[test]
    fn the_page_of_a_study_says_how_the_job_ended() {
        let arguments =
            arguments(&["--inject", "flip:send:at=3,rank=1,replica=1", "--propagation", "page", "--", "program"]);
        for (last, words) in [
            (END, "the same calls until the end"),
            ("diverged <b>", "left their common path: rank 1: &lt;b&gt;"),
            ("stopped MPI_File_open", "was stopped: rank 1: MPI_File_open"),
            ("lost 0", "did not come to its end: an error can have crashed the program: exit code 3"),
        ] {
            let report = report(last);
            let study = PropagationStudy::of(&report, None);
            let page = propagation_page::of_study(&job(&arguments, &report), &study);
            assert!(page.contains(words), "{last}: {page}");
            let [step, number] = ["2", "5"].map(|number| format!("<td class=\"number\">{number}</td>"));
            assert!(page.contains(&format!("<tr>{step}<td>directly</td>{step}{number}<td>1</td></tr>")), "{page}");
            assert!(page.matches("<svg").count() == 4 && !page.contains("<b>rank"), "{page}");
            assert_eq!(study.has_failed(&report), last.starts_with("stopped"), "{last}");
        }
        let none = JobReport::default();
        let study = PropagationStudy::of(&none, None);
        assert!(study.has_failed(&none), "nothing was flipped");
        let page = propagation_page::of_study(&job(&arguments, &none), &study);
        assert!(page.contains("no bit was flipped"), "{page}");
    }

    #[test]
    fn a_study_needs_a_replica_that_is_not_hit_and_each_page_its_own_file() {
        let refused = |words: &[&str]| {
            let all = [words, &["--", "program"]].concat();
            JobPages::prepare(&arguments(&all)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page");
        let page = page.to_str().unwrap();
        assert_eq!(refused(&["--inject", "flip:send:at=3,replica=1", "--propagation", page]), "");
        assert!(refused(&["--inject", "flip:send:at=3", "--propagation", page]).contains("must name a replica"));
        assert!(refused(&["--inject", "flip:send:at=3,rank=4"]).contains("--inject: there is no rank 4"));
        let same = ["--inject", "flip:send:at=3,replica=1", "--propagation", page, "--report", page];
        assert!(refused(&same).contains("same file"));
        assert!(refused(&["--mode", "later", "--protocol", "all-to-all"]).contains("needs --mode now"));
        assert!(refused(&["--report", "/no/such/folder/page"]).contains("/no/such/folder/page"));
    }
}
