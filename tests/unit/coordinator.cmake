muster_test(roster_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/roster_test.cc DEPS muster_coordinator rapidcheck)
muster_test(budgets_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/budgets_test.cc DEPS muster_coordinator)
muster_test(coordinator_test
  SOURCES coordinator_test.cc coordinator_successor_test.cc coordinator_farewell_test.cc coordinator_growth_test.cc
          coordinator_budgets_test.cc coordinator_refusals_test.cc coordinator_success_test.cc
          coordinator_latecomers_test.cc coordinator_rivals_test.cc coordinator_held_test.cc coordinator_scale_test.cc
          coordinator_recovering_test.cc coordinator_gathering_test.cc coordinator_running_test.cc
  DEPS muster_coordinator)
muster_test(first_cause_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/first_cause_test.cc DEPS muster_coordinator)
muster_test(states_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/states_test.cc DEPS muster_coordinator)
muster_test(differences_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/differences_test.cc DEPS muster_coordinator)
