// What every link does, whatever carries it: tests that the programs of all links run, with
// `the_link` made by a setup function of theirs.
#pragma once

#include "tests/link/descriptors.h"
#include "tests/link/loop.h"

extern struct loop l;
extern struct link *the_link;
// What a link does with two streams that have connected, before they are tested. NULL: nothing.
extern void (*contract_begin_pair)(void);

#define CONTRACT_TESTS(X)                                          \
    X(every_operation_is_there)                                    \
    X(octets_cross_over_ipv4)                                      \
    X(octets_cross_over_ipv6)                                      \
    X(stream_of_many_elements_is_taken_whole)                      \
    X(stream_that_is_full_goes_on_when_it_is_read)                 \
    X(idle_streams_are_never_ready)                                \
    X(withdrawn_interest_is_silent_until_renewed)                  \
    X(room_is_reported_only_when_wanted)                           \
    X(no_more_is_reported_than_asked_for)                          \
    X(fin_is_reported_once)                                        \
    X(stream_that_both_have_shut_is_silent)                        \
    X(reset_is_named_and_then_silent)                              \
    X(broken_stream_takes_nothing_more)                            \
    X(reset_behind_a_fin_is_named_too)                             \
    X(orderly_close_ends_with_fin)                                 \
    X(wake_ends_a_wait)                                            \
    X(octets_end_a_wait)                                           \
    X(abandoned_link_holds_no_descriptor)                          \
    X(closed_stream_has_no_owner_where_a_report_may_still_name_it) \
    X(programs_that_are_started_inherit_no_descriptor)             \
    X(program_without_input_has_its_descriptor_0_left_alone)       \
    X(without_input_a_stream_connects_from_where_it_is_bound)      \
    X(refused_connection_is_named)                                 \
    X(error_of_a_stream_that_is_not_read_can_be_asked_for)         \
    X(connected_stream_knows_its_addresses_and_segment_size)       \
    X(bound_stream_knows_its_address_and_no_peer)                  \
    X(calls_out_of_turn_are_refused)                               \
    X(address_of_an_unknown_family_is_refused)                     \
    X(route_names_the_address_to_leave_from)                       \
    X(listener_of_no_given_length_holds_several)                   \
    X(nobody_waits_to_be_accepted_any_more)                        \
    X(bound_port_is_not_shared)                                    \
    X(port_with_nothing_but_ended_connections_is_free)             \
    X(both_ports_make_another_connection_at_once)                  \
    X(ipv6_wildcard_takes_ipv4_unless_told_not_to)

#define X(name) void name(void **state);
CONTRACT_TESTS(X)
#undef X
