muster_test(agent_core_test SOURCES agent_core_test.cc agent_core_wire_test.cc port_retry_test.cc DEPS muster_agent_core)
muster_test(notice_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/notice_test.cc DEPS muster_notice)
