foreach(name server session address)
  muster_test(wire_${name}_test SOURCES wire/${name}_test.cc DEPS muster_session)
endforeach()
muster_test(wire_agent_process_test SOURCES wire/agent_process_test.cc DEPS muster_agent)
