import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { documented } from "../../../test/integration/kafka/Connect.ts"
import { modelNames } from "../../domain/BuiltInModels.ts"
import { controlTopicOf, findTemplateError, progressTopicOf, stateTopicOf, topicOf } from "./TopicNames.ts"

const model = "ats.tag"

describe("TopicNames", () => {
  it("a topic's name is the template with model and integration filled in", () => {
    const stream = { integration: "greenhouse:acme", model } as const
    assert.strictEqual(topicOf("rollcall.{model}", stream), "rollcall.ats.tag")
    assert.strictEqual(topicOf("{integration}.{model}", stream), "greenhouse_3aacme.ats.tag")
    assert.strictEqual(stateTopicOf("{model}", stream), "ats.tag.state")
    assert.strictEqual(topicOf("{integration}", { integration: "ä_$&", model }), "_c3_a4_5f_24_26")
  })

  it("the documented pattern for tables matches the topics of the events of every model, and no other topic", () => {
    const [, pattern = ""] = /^topics\.regex=(.*)$/m.exec(documented("properties").join("")) ?? []
    const isTable = (topic: string) => new RegExp(`^(?:${pattern})$`).test(topic)
    const template = "rollcall.{model}"
    for (const model of [...modelNames, "hris2.level_3", "lms.course"] as const) {
      const stream = { integration: "workday:acme", model }
      assert.deepStrictEqual([topicOf(template, stream), stateTopicOf(template, stream)].map(isTable), [true, false])
    }
    assert.deepStrictEqual([progressTopicOf(template), controlTopicOf(template)].map(isTable), [false, false])
  })

  it.prop(
    "no two integrations share a topic, and every topic has a name that Kafka accepts",
    [Schema.NonEmptyString, Schema.NonEmptyString],
    ([one, other]) => {
      const [first, second] = [one, other].map((integration) => topicOf("{integration}", { integration, model }))
      assert.match(first ?? "", /^[A-Za-z0-9._-]+$/)
      // Lone surrogates have no UTF-8 encoding of their own.
      if (one.isWellFormed() && other.isWellFormed()) assert.strictEqual(first === second, one === other)
    }
  )

  it("the names of the progress and relay topics come from the template, and differ if templates differ", () => {
    assert.strictEqual(progressTopicOf("rollcall.{model}"), "rollcall.progress")
    assert.strictEqual(controlTopicOf("rollcall.{model}"), "rollcall.relay")
    const templates = ["hr", "hr.{model}", "hr.{integration}", "hr.{integration}.{model}", "{model}", "{integration}"]
    const names = templates.flatMap((template) => [progressTopicOf(template), controlTopicOf(template)])
    assert.deepStrictEqual(names, [
      ..."hr._progress hr._relay hr.progress hr.relay hr._._progress hr._._relay".split(" "),
      ..."hr._.progress hr._.relay progress relay _._progress _._relay".split(" ")
    ])
  })

  it.prop(
    "no stream's topic has the name of the progress topic or the relay topic, for any template and integration",
    [
      Schema.NonEmptyArray(
        Schema.Literals(["{model}", "{integration}", ".", "_", "5f", "progress", "relay", "state", "._progress"])
      ),
      Schema.NonEmptyArray(Schema.Literals([".", "_", "5f", "progress", "relay", "ats.tag", "é", "_5f"])),
      Schema.Literals(modelNames)
    ],
    ([parts, names, model]) => {
      const [template, integration] = [parts.join(""), names.join("")]
      const own = [progressTopicOf(template), controlTopicOf(template)]
      const stream = { integration, model }
      for (const topic of [topicOf(template, stream), stateTopicOf(template, stream)]) assert.notInclude(own, topic)
    }
  )

  it("a template with an unknown placeholder or a character that Kafka does not accept is invalid", () => {
    assert.isNull(findTemplateError("rollcall.{integration}.{model}"))
    assert.isNull(findTemplateError("everything"))
    assert.include(findTemplateError("rollcall.{modle}") ?? "", "{modle}")
    for (const wrong of ["", "a b", "rollcall/{model}", "{model", "ä"]) {
      assert.isNotNull(findTemplateError(wrong), wrong)
    }
  })
})
