/**
 * The words of the API's free text that may appear in logs and errors: what APIs say about requests, permissions, limits and
 * fields. It lists the permitted words, because names of people and companies cannot be recognized: many are written in lower case.
 *
 * Gotchas
 * - Words that are also common names or a personal detail (`will`, `may`, `grant`, `mark`, `sick`, `pregnant`) are left out.
 */
const text = `
  a about above absent accept accepted access account accounts action actions active add added address after again all allow
  allowed already also always an and another answer any api app application applications are array as assessment at attempt
  attempts attribute attributes authentication authorization authorized automatically available back bad batch be because been
  before being below between body both but by call called calls can candidate candidates cannot change changed changes check
  checks choose client closed code complete completed concurrency conflict configuration configured connect connected
  connection contact contain contains content could count create created creating credentials currently cursor custom cut data
  date dates day days default delayed delete deleted deprecated did different disabled disconnected do does done down dropped
  duplicate each early either else email empty enable enabled endpoint endpoints enough entity entries entry environment error
  errors even every exceed exceeded exceeds exist existing exists expected expire expired external failed failing failure fetch
  field fields file files filter filters finished first following for forbidden form format found from full further gateway
  get given greater had has have header headers hour hours id identifier identifiers if ignored import in inactive incomplete
  incorrect information input insufficient integration integrations internal interval into invalid is it item items its job
  jobs json just key keys large last later least length less limit limited limits link linked list lists load loaded locked
  longer made maintenance many match matches matching maximum memory message method minimum minute minutes missing model models
  modified more most moved multiple must name names need needed needs network never new next no none not nothing now null
  number object objects of off offer offered offers offset old on once one only open operation option optional or order other
  our out outdated over own page pages paging parameter parameters partial partially passed passes path paths pending per
  permission permissions permitted phone plan platform please policy possible present previous problem process processed
  processing property provide provided provider query queue quota rate read reading reason received record records refresh
  refused refuses rejected release remote removed renamed request requested requests require required requires resource
  response responses result results retry returned returns revoked role row rows run running same schema scope scopes second
  seconds see select selected send sent server service session set sets setting settings setup should shown side since site
  size skipped slow so some something source state status step still stopped stored string supplied support supported supports
  switched sync synced synchronization synchronisation system tag tags take takes task team temporarily temporary than that the
  their them then there these they third this those through time timed timeout times to token tokens too took tool tools
  transferred translated trial truncated try twice type types unauthorized unavailable unchanged unexpected unique unknown
  unreachable unsupported until up update updated updates updating upstream url use used user using valid validation value
  values version wait waiting want wants was way we webhook were what when where which while with within without write wrong
  yet you your zero
`

export const plainWords: ReadonlySet<string> = new Set(text.trim().split(/\s+/))
