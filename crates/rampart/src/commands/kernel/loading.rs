//! `rampart kernel load` and `rampart kernel unload`.

use std::io::ErrorKind;

use rampart_linux::Roots;
use rampart_linux::kernel_module::{self, KernelModuleView, LoadedModule, ModuleRefusal, running_release};
use serde_json::json;

use super::arguments::KernelLoadArguments;
use crate::error::Error;
use crate::output::text;

/// Loads the module, and returns 0, also if it was loaded.
pub fn load(arguments: &KernelLoadArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let release = running_release(&roots);
    let was_loaded = LoadedModule::find(&roots).is_some();
    let path = arguments.folder.module(&release);
    if !was_loaded {
        kernel_module::load(&roots, &path).map_err(|refusal| match refusal {
            ModuleRefusal::Unread { path, cause } if cause.kind() == ErrorKind::NotFound => {
                Error::NotBuilt { release: release.clone(), path }
            }
            refusal => refusal.into(),
        })?;
    }
    let view = KernelModuleView::read(&roots).map_err(|absence| {
        // A module of another version that was just loaded is of no use to anybody.
        if !was_loaded {
            let _still_loaded = kernel_module::unload(&roots);
        }
        Error::ModuleView(absence)
    })?;
    if arguments.json {
        text::print_json(&json!({
            "schema": "rampart.kernel-load/1",
            "release": release,
            "was_loaded": was_loaded,
            "abi": view.abi,
        }))?;
    } else if was_loaded {
        text::print(&format!("loaded      before; ABI {}\n", view.abi))?;
    } else {
        text::print(&format!("loaded      {}; ABI {}\n", path.display(), view.abi))?;
    }
    Ok(0)
}

/// Unloads the module, and returns 0, also if it was not loaded.
pub fn unload(json: bool) -> Result<u8, Error> {
    let was_loaded = kernel_module::unload(&Roots::default())?;
    if json {
        text::print_json(&json!({ "schema": "rampart.kernel-unload/1", "was_loaded": was_loaded }))?;
    } else {
        text::print(if was_loaded { "unloaded\n" } else { "not loaded: there is nothing to unload\n" })?;
    }
    Ok(0)
}
