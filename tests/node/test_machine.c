// Whose initiator this machine is to iSCSI targets, whatever it has to be known by.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/ddm/scsi_session.h"
#include "tests/fake_machine.h"

// An image's machines have the same file before they are started for the first time, and each is
// another initiator all the same.
static void targets_of_iscsi_are_told_a_name_of_this_machine(void **state)
{
    char first[SCSI_SESSION_TEXT_MAX], second[SCSI_SESSION_TEXT_MAX];
    machine.host = "h";
    machine.id = "4a5f\n";
    scsi_session_initiator(NULL, first);
    assert_string_equal(first, "iqn.2026-11.invalid.weft:a5ddde5e5489b815");
    machine.id = "uninitialized\n";
    scsi_session_initiator(NULL, first);
    machine.host = "i";
    scsi_session_initiator(NULL, second);
    assert_string_not_equal(first, second);
    scsi_session_initiator("iqn.2026-11.test:mine", first);
    assert_string_equal(first, "iqn.2026-11.test:mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_of_iscsi_are_told_a_name_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
