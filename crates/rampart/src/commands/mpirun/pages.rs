//! The pages that the user wants of a job, and what must be right before it runs.

use std::process::ExitStatus;

use super::arguments::MpirunArguments;
use super::propagation_page;
use super::report_page::{EndedJob, of_job};
use super::reports::JobReport;
use super::study::PropagationStudy;
use crate::error::Error;
use crate::output::file::Output;
use crate::process::program::describe_end;

/// Files that are written when the job has ended.
pub struct Pages {
    report: Option<Output>,
    propagation: Option<Output>,
}

impl Pages {
    /// Checks that they can be written, and that the job can have what they show.
    ///
    /// # Errors
    /// [`Error::Replicas`] for a flip that hits nothing or has no reference, [`Error::Report`] if a file cannot be written.
    pub fn prepare(arguments: &MpirunArguments) -> Result<Self, Error> {
        if let Some(flip) = &arguments.inject {
            if let Some(why) = flip.misses(arguments.n.get(), arguments.replicas) {
                return Err(Error::Replicas(format!("--inject: {why}")));
            }
            if arguments.propagation.is_some() && flip.replica().is_none() {
                let why =
                    "--propagation: --inject must name a replica, as in flip:at=3,replica=1; the others stay right";
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
