//! The golden logs by version: every kind of event that the version wrote, with every field and variant.

macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        /// Names and lines of the logs.
        pub const GOLDEN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../fixtures/golden/", $name)))),*];
    };
}

golden! {
    "v1/action_plan__model_calls_run_out.jsonl",
    "v1/index_builder__an_entry_is_held.jsonl",
    "v1/index_builder__the_index_is_down.jsonl",
    "v1/planner__a_long_result_is_shortened_and_read_on.jsonl",
    "v1/planner__a_refusal_makes_the_context_window_known.jsonl",
    "v1/planner__a_session_is_lost.jsonl",
    "v1/planner__a_tool_is_declined_its_input.jsonl",
    "v1/planner__a_tool_returns_images.jsonl",
    "v1/planner__a_tool_wants_input.jsonl",
    "v1/planner__input_provided_with_a_key.jsonl",
    "v1/planner__more_than_words.jsonl",
    "v1/planner__nodes_are_configured.jsonl",
    "v1/planner__reconciled_with_a_key.jsonl",
    "v1/planner__repeats_have_a_limit.jsonl",
    "v1/planner__repeats_of_a_write_run_out_in_doubt.jsonl",
    "v1/planner__replies_of_no_use_are_paid_for.jsonl",
    "v1/planner__the_pin_of_a_server_changed.jsonl",
    "v1/planner__write_in_doubt_skipped.jsonl",
    "v1/planner_with_prompts__arguments_filled_by_the_model.jsonl",
    "v1/planner_with_prompts__clarification.jsonl",
    "v1/planner_with_prompts__time_of_a_thread_is_spent.jsonl",
    "v1/probe__a_picture_and_a_file.jsonl",
    "v1/probe__a_worker_stops_a_node.jsonl",
    "v1/probe__asks_a_choice.jsonl",
    "v1/probe__asks_openly.jsonl",
    "v1/probe__asks_openly_with_options.jsonl",
    "v1/probe__cancelled.jsonl",
    "v1/probe__cancelled_with_a_key.jsonl",
    "v1/probe__fails_and_is_retried.jsonl",
    "v1/probe__falters_then_goes_on.jsonl",
    "v1/probe__forked.jsonl",
    "v1/probe__forked_with_a_key.jsonl",
    "v1/probe__forked_within_a_budget.jsonl",
    "v1/probe__least.jsonl",
    "v1/probe__partial_and_declined.jsonl",
    "v1/probe__retried_with_a_key.jsonl",
    "v1/probe__time_of_a_turn_is_spent.jsonl",
    "v1/probe__waits_for_a_provider.jsonl",
    "v1/research__a_provider_cites_what_it_read.jsonl",
    "v1/research__money_of_a_turn_is_spent.jsonl",
    "v1/research__nothing_asked_and_nothing_answered.jsonl",
    "v1/retriever__a_call_becomes_a_task.jsonl",
    "v1/retriever__a_late_answer_settles_a_doubt.jsonl",
    "v1/retriever__a_reply_is_cut_off.jsonl",
    "v1/retriever__a_search_by_cosine.jsonl",
    "v1/retriever__a_search_by_dot.jsonl",
    "v1/retriever__a_search_with_options_among_few_servers.jsonl",
    "v1/retriever__ambiguity_answered_by_name.jsonl",
    "v1/retriever__dead_server.jsonl",
    "v1/retriever__money_of_a_thread_is_spent.jsonl",
    "v1/retriever__tokens_of_a_thread_are_spent.jsonl",
    "v1/retriever__write_in_doubt.jsonl",
}
