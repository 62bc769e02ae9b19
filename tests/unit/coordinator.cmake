muster_test(roster_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/roster_test.cc DEPS muster_coordinator rapidcheck)
muster_test(budgets_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/budgets_test.cc DEPS muster_coordinator)
muster_test(coordinator_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/coordinator_test.cc DEPS muster_coordinator)
muster_test(states_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/states_test.cc DEPS muster_coordinator)
