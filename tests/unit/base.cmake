muster_test(base_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/base_test.cc DEPS muster_base)
muster_test(purity_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/purity_test.cc)
