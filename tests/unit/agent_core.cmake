muster_test(agent_core_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/agent_core_test.cc DEPS muster_agent_core)
muster_test(notice_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/notice_test.cc DEPS muster_notice)
