//! Every field of every recipe, pinned. A change here is a change of numbers: it goes into the changelog, with its source.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use grpo_core::Recipe;

#[test]
fn every_field_of_every_recipe_is_pinned() {
    let given = serde_json::to_string_pretty(&Recipe::all()).unwrap();
    let pinned = include_str!("presets.json");
    assert_eq!(given.trim(), pinned.trim(), "a recipe changed; if that is meant, write this to tests/presets.json:\n{given}");
}

#[test]
fn every_recipe_is_valid_and_survives_json() {
    for recipe in Recipe::all() {
        recipe.config.validate().unwrap();
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
    }
}
