//! Every strategy lists its prompts, because the keys of cached model replies depend on them.

use std::{fs, path::Path};

#[test]
fn every_prompt_file_is_used() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../strategies/src");
    let mut read = 0;
    for strategy in strategies::all() {
        let Ok(files) = fs::read_dir(folder.join(strategy.name()).join("prompts")) else { continue };
        for file in files {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            assert!(strategy.prompts().contains(&text.as_str()), "{} is not in PROMPTS", path.display());
            read += 1;
        }
    }
    assert!(read >= 18, "only {read} prompts were found");
}

/// A strategy that borrows nodes lists their prompts, too.
#[test]
fn a_planner_with_prompts_has_those_of_the_planner() {
    let of = |name| strategies::find(name).unwrap().prompts();
    assert!(of("planner").iter().all(|prompt| of("planner_with_prompts").contains(prompt)));
}
